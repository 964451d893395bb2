import { RATE_LIMITED_ALIASES } from '../limits/limit-settings.ts'
import { dapoManager } from './dapo.ts'
import { gdpoManager } from './gdpo.ts'
import type { RewardManager } from './manager.ts'
import { naiveManager } from './naive.ts'
import { rateLimitedManager } from './rate-limited.ts'

const managers = new Map<string, RewardManager>(
  [naiveManager, dapoManager, gdpoManager, rateLimitedManager].map((manager) => [
    manager.name,
    manager,
  ]),
)

/** Other names for a manager, as upstream accepts them. */
export const MANAGER_ALIASES: Readonly<Record<string, string>> = RATE_LIMITED_ALIASES

/** The registered reward managers' names. */
export function managerNames(): string[] {
  return [...managers.keys()]
}

/** A registered manager. Throws for a name that acceptance should have refused. */
export function managerNamed(name: string): RewardManager {
  const manager = managers.get(name)
  if (!manager) throw new Error(`reward manager "${name}" is not registered`)
  return manager
}
