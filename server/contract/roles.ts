// Without a schema: every page asks what its reader may do, and schemas would add zod's 30 KB to each first load.

/** Roles, the least first. */
export const ROLES = ['viewer', 'trainer', 'admin'] as const

/**
 * What a caller may do: a viewer reads, a trainer also submits rollouts and annotates what was scored, an admin also
 * changes servers, keys, limits, monitors and what is kept.
 */
export type Role = (typeof ROLES)[number]

/** Who asks. Without keys everybody on this machine is `local`, and may do everything. */
export interface Actor {
  /** The key's name, as lists of who changed what show it; never the key. */
  name: string
  role: Role
}

/** Whether who has one role may do what needs another: each role may do all that the one before it may. */
export function mayDo(has: Role, needed: Role): boolean {
  return ROLES.indexOf(has) >= ROLES.indexOf(needed)
}
