import { RATE_LIMITED_ALIASES } from '../limits/limit-settings.ts'
import { batchManager } from './batch.ts'
import { dapoManager } from './dapo.ts'
import { gdpoManager } from './gdpo.ts'
import type { RewardManager } from './manager.ts'
import { moduleManager } from './module.ts'
import { naiveManager } from './naive.ts'
import { rateLimitedManager } from './rate-limited.ts'
import { remoteManager } from './remote.ts'

const managers = new Map<string, RewardManager>(
  [
    naiveManager,
    dapoManager,
    batchManager,
    gdpoManager,
    rateLimitedManager,
    remoteManager,
    moduleManager,
  ].map((manager) => [manager.name, manager]),
)

/** Aliases of managers, as verl accepts them. */
export const MANAGER_ALIASES: Readonly<Record<string, string>> = RATE_LIMITED_ALIASES

/** Names of all managers except the one for custom classes, because rewards refer to custom classes by path. */
export function managerNames(): string[] {
  return [...managers.keys()].filter((name) => name !== moduleManager.name)
}

/** @throws Error for a name that acceptance should have refused */
export function managerNamed(name: string): RewardManager {
  const manager = managers.get(name)
  if (!manager) throw new Error(`reward manager "${name}" is not registered`)
  return manager
}
