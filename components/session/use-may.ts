'use client'

import { mayDo, type Role } from '../../server/wire/roles.ts'
import { useSession } from './use-session.ts'

/** Why somebody may not do something; null: they may. */
export type Refusal = string | null

/**
 * Whether who looks may do what needs a role; else why not, for the button's tooltip. Until it is known who looks nothing
 * is refused here: the service decides in any case.
 */
export function useMay(needed: Role): Refusal {
  const { data } = useSession()
  const role = data?.role ?? null
  if (role === null || mayDo(role, needed)) return null
  return `Needs the role ${needed}; the key “${data?.name}” has the role ${role}.`
}
