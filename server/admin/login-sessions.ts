import { randomBytes } from 'node:crypto'
import type { LoginSessionDto } from '../contract/access.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import {
  deleteLoginSession,
  deleteLoginSessions,
  deleteSessionsOfKey,
  insertLoginSession,
  type LoginSessionRow,
  loginSessions,
  type SessionTimes,
  touchLoginSession,
} from '../store/sql/login-sessions.ts'
import { endKey } from './key-end.ts'
import { type KeyHolder, lookUpOf } from './key-holder.ts'

/** Maximum number of sessions of one key, and of all keys. The sessions unused for the longest time end first. */
const MAX_SESSIONS = { ofKey: 50, ofAll: 2_000 }
/** Shortest time between two writes of `last_used_at`. */
const USED_EVERY_MS = 60_000
const MAX_USER_AGENT_CHARS = 300
const AGAIN = 'Sign in again.'

/** The key of a session: the id of a stored key, or the digest of a key of REWARDOPS_API_KEYS. */
export type SessionKey = { keyId: number } | { configuredHash: string }

export interface SessionClient {
  address: string
  userAgent: string
}

interface KnownSession {
  row: LoginSessionRow
  holder: KeyHolder
  end: AbortController
  usedAtMs: number
}

/** The browser logins, kept in this process's memory. The key ring reads them together with the keys. */
export class LoginSessions {
  readonly #db: Database
  readonly #times: SessionTimes
  readonly #nowMs: () => number
  #byHash = new Map<string, KnownSession>()

  /** `nowMs` returns the time of the database's clock. */
  constructor(db: Database, times: SessionTimes, nowMs: () => number) {
    this.#db = db
    this.#times = times
    this.#nowMs = nowMs
  }

  get maxAgeSeconds(): number {
    return this.#times.maxAgeMs / 1_000
  }

  read(): Promise<LoginSessionRow[]> {
    return loginSessions(this.#db, MAX_SESSIONS.ofAll)
  }

  /**
   * Replaces the known sessions with the stored sessions. Ends the known sessions that were deleted or have expired, or
   * whose key is no longer valid. `holderOf` returns the holder of a valid key.
   */
  take(rows: readonly LoginSessionRow[], holderOf: (key: SessionKey) => KeyHolder | null): void {
    const byHash = new Map<string, KnownSession>()
    for (const row of rows) {
      const hash = row.hash.toString('hex')
      const known = this.#byHash.get(hash)
      const key = holderOf(keyOf(row))
      if (key === null) continue
      const end = known?.end ?? new AbortController()
      const session: KnownSession = {
        row,
        holder: { ...key, session: row.id, ended: end.signal },
        end,
        usedAtMs: Math.max(known?.usedAtMs ?? 0, row.last_used_at.getTime()),
      }
      if (!this.#isValid(session)) continue
      byHash.set(hash, session)
    }
    const before = this.#byHash
    this.#byHash = byHash
    const stored = new Set(rows.map(({ id }) => id))
    for (const [hash, { end, row }] of before) {
      if (byHash.has(hash)) continue
      endKey(
        end,
        stored.has(row.id)
          ? 'The session has expired, or its key was revoked.'
          : 'The session was ended.',
        AGAIN,
      )
    }
  }

  byCookie(cookie: string): KeyHolder | null {
    if (this.#byHash.size === 0) return null
    const session = this.#byHash.get(lookUpOf(cookie))
    if (session === undefined || !this.#isValid(session)) return null
    const now = this.#nowMs()
    if (now - session.usedAtMs >= USED_EVERY_MS) {
      session.usedAtMs = now
      touchLoginSession(this.#db, session.row.id).catch(() => {})
    }
    return session.holder
  }

  #isValid({ row, usedAtMs }: KnownSession): boolean {
    const now = this.#nowMs()
    const { maxAgeMs, idleMs } = this.#times
    return now < row.created_at.getTime() + maxAgeMs && now < usedAtMs + idleMs
  }

  async open(key: SessionKey, { address, userAgent }: SessionClient): Promise<string> {
    const cookie = randomBytes(32).toString('base64url')
    await insertLoginSession(
      this.#db,
      {
        hash: Buffer.from(lookUpOf(cookie), 'hex'),
        key_id: 'keyId' in key ? key.keyId : null,
        configured_hash: 'keyId' in key ? null : Buffer.from(key.configuredHash, 'hex'),
        address,
        user_agent: userAgent.slice(0, MAX_USER_AGENT_CHARS),
      },
      this.#times,
      MAX_SESSIONS,
    )
    return cookie
  }

  list(own: number | null): LoginSessionDto[] {
    return [...this.#byHash.values()]
      .filter((session) => this.#isValid(session))
      .toSorted((a, b) => b.usedAtMs - a.usedAtMs)
      .map(({ row, holder, usedAtMs }) => ({
        id: `l${row.id}`,
        name: holder.name,
        role: holder.role,
        address: row.address,
        userAgent: row.user_agent,
        createdAt: row.created_at.toISOString(),
        lastUsedAt: new Date(usedAtMs).toISOString(),
        expiresAt: new Date(
          Math.min(row.created_at.getTime() + this.#times.maxAgeMs, usedAtMs + this.#times.idleMs),
        ).toISOString(),
        isOwn: row.id === own,
      }))
  }

  /** Deletes a session. @throws RewardOpsError `session_not_found` */
  async end(id: string): Promise<void> {
    if ((await deleteLoginSessions(this.#db, [Number(id.slice(1))])) === 0) {
      throw new RewardOpsError('session_not_found', `There is no session ${id}.`)
    }
  }

  endAll(but: number | null): Promise<number> {
    return deleteLoginSessions(this.#db, undefined, but)
  }

  endOfKey(keyId: number): Promise<void> {
    return deleteSessionsOfKey(this.#db, keyId)
  }

  signOut(cookie: string): Promise<boolean> {
    return deleteLoginSession(this.#db, Buffer.from(lookUpOf(cookie), 'hex'))
  }
}

function keyOf({ key_id, configured_hash }: LoginSessionRow): SessionKey {
  return key_id === null ? { configuredHash: configured_hash!.toString('hex') } : { keyId: key_id }
}
