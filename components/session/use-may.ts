'use client'

import { mayDo, type Role } from '../../server/contract/roles.ts'
import { useSession } from './use-session.ts'

/** The reason why an action is unavailable; null if it is available. */
export type Refusal = string | null

/**
 * Returns the reason why the user may not make a change that needs a role, for a tooltip; null if they may. Nothing is
 * disabled before the session is known, because the service enforces roles in any case.
 */
export function useMay(needed: Role): Refusal {
  const { data } = useSession()
  const refused = useMayRead(needed)
  return refused === null && data?.isReadOnly ? `The key “${data.name}” is read-only.` : refused
}

/** Like {@link useMay}, for data that only some roles may read. */
export function useMayRead(needed: Role): Refusal {
  const { data } = useSession()
  const role = data?.role ?? null
  if (role === null || mayDo(role, needed)) return null
  return `Requires the role ${needed}. The key “${data?.name}” has the role ${role}.`
}
