/**
 * What a caller may do: a viewer reads, a trainer also submits rollouts and annotates what was scored, an admin also
 * changes servers, keys, limits, monitors and what is kept.
 */
export type Role = 'viewer' | 'trainer' | 'admin'

/** Who asks. Without keys everybody on this machine is `local`, and may do everything. */
export interface Actor {
  /** The key's name, as lists of who changed what show it; never the key. */
  name: string
  role: Role
}
