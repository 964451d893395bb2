import { createHash } from 'node:crypto'
import type { Actor, KeyAccess } from '../contract/roles.ts'

export interface KeyScope {
  access: KeyAccess
  /** The key covers only runs whose names begin with this text; null means all runs. */
  runPrefix: string | null
}

/** A caller with its key, or an anonymous local caller. */
export interface KeyHolder extends Actor {
  /** The stored key's number; null for a key of REWARDOPS_API_KEYS, or for no key. */
  keyId: number | null
  /** The limits of the key within its role, or null if there are none. */
  scope: KeyScope | null
  /** False for an anonymous caller on this machine. */
  hasKey: boolean
  /** The number of the caller's login session; null if the call carries the key itself, or no key. */
  session: number | null
  /** Aborted when the key is revoked or expires, or the session ends; the reason is an `unauthorized` error. */
  ended: AbortSignal
}

/** The digest by which keys and cookies are looked up, so that comparison times do not reveal them. */
export function lookUpOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}
