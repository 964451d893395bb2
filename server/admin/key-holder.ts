import { createHash } from 'node:crypto'
import type { Actor, KeyAccess } from '../contract/roles.ts'

/** The limits of a key within its role. */
export interface KeyScope {
  access: KeyAccess
  /** The key admits only runs whose names begin with this text; null: all runs. */
  runPrefix: string | null
}

/** A caller with its key, or an anonymous local caller. */
export interface KeyHolder extends Actor {
  /** The stored key's number; null: a key of REWARDOPS_API_KEYS, or no key. */
  keyId: number | null
  /** The limits of the key within its role; null: none. */
  scope: KeyScope | null
  /** False for an anonymous caller on this machine. */
  hasKey: boolean
  /** The number of the caller's login session; null: the call carries the key itself, or none. */
  session: number | null
  /** Aborted when the key is revoked or expires, or the session ends; the reason is an `unauthorized` error. */
  ended: AbortSignal
}

/** The digest by which keys and cookies are looked up, so that comparison times do not reveal them. */
export function lookUpOf(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}
