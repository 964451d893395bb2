'use client'

import { mayDo, type Role } from '../../server/contract/roles.ts'
import { useSession } from './use-session.ts'

/** Why an action is unavailable; null: it is available. */
export type Refusal = string | null

/**
 * Checks the role of the user. Returns the reason for the tooltip if it is insufficient. Nothing is disabled before
 * the session is known, because the service enforces roles in any case.
 */
export function useMay(needed: Role): Refusal {
  const { data } = useSession()
  const role = data?.role ?? null
  if (role === null || mayDo(role, needed)) return null
  return `Requires the role ${needed}. The key “${data?.name}” has the role ${role}.`
}
