import { dapoManager } from './dapo.ts'
import type { RewardManager } from './manager.ts'
import { naiveManager } from './naive.ts'
import { DAPO_KWARGS, readOverlongBuffer } from './overlong-buffer.ts'

const managers = new Map<string, RewardManager>(
  [naiveManager, dapoManager].map((manager) => [manager.name, manager]),
)

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

/**
 * Checks the kwargs that a manager knows itself and gives back the others: what remains is for the rules or the reward
 * function. To be called once a batch, with the manager's own name, not an alias.
 */
export function takeManagerKwargs(
  manager: string,
  kwargs: Record<string, unknown>,
): { ok: true; rest: Record<string, unknown> } | { ok: false; message: string; hint: string } {
  if (manager !== dapoManager.name) return { ok: true, rest: kwargs }
  const read = readOverlongBuffer(kwargs)
  if (!read.ok) return read
  const rest = Object.entries(kwargs).filter(([key]) => !DAPO_KWARGS.includes(key))
  return { ok: true, rest: Object.fromEntries(rest) }
}
