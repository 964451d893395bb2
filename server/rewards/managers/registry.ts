import type { RewardManager } from './manager.ts'
import { naiveManager } from './naive.ts'

const managers = new Map<string, RewardManager>([[naiveManager.name, naiveManager]])

/** Other names for a manager, as upstream accepts them. */
export const MANAGER_ALIASES: Readonly<Record<string, string>> = {}

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
