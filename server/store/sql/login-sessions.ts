import type { Database } from '../database.ts'

/** A browser's login. Exactly one of `key_id` and `configured_hash` is set. */
export interface LoginSessionRow {
  id: number
  hash: Buffer
  key_id: number | null
  configured_hash: Buffer | null
  created_at: Date
  last_used_at: Date
  address: string
  user_agent: string
}

const COLUMNS = 'id, hash, key_id, configured_hash, created_at, last_used_at, address, user_agent'

/** Sessions, newest first. Expired sessions are included until the next sign-in deletes them. */
export function loginSessions(db: Database, limit: number): Promise<LoginSessionRow[]> {
  return db.rows(
    'login-sessions',
    `select ${COLUMNS} from login_session order by id desc limit $1`,
    [limit],
  )
}

/** `maxAgeMs`: maximum age of a session. `idleMs`: time without a request after which a session ends. */
export interface SessionTimes {
  maxAgeMs: number
  idleMs: number
}

/**
 * Stores a session and deletes expired ones. If its key then has more than `ofKey` sessions, or all keys together have
 * more than `ofAll`, the least recently used ones are deleted.
 */
export async function insertLoginSession(
  db: Database,
  session: Omit<LoginSessionRow, 'id' | 'created_at' | 'last_used_at'>,
  { maxAgeMs, idleMs }: SessionTimes,
  most: { ofKey: number; ofAll: number },
): Promise<void> {
  await db.adhoc(
    `with expired as (
       delete from login_session where created_at < now() - $6 * interval '1 millisecond'
         or last_used_at < now() - $7 * interval '1 millisecond'
     ), surplus as (
       delete from login_session where id in (
         select id from login_session where key_id is not distinct from $2 and configured_hash is not distinct from $3
         order by last_used_at desc offset $8 - 1)
       or id in (select id from login_session order by last_used_at desc offset $9 - 1)
     )
     insert into login_session (hash, key_id, configured_hash, address, user_agent) values ($1, $2, $3, $4, $5)`,
    [
      session.hash,
      session.key_id,
      session.configured_hash,
      session.address,
      session.user_agent,
      maxAgeMs,
      idleMs,
      most.ofKey,
      most.ofAll,
    ],
  )
}

/**
 * Deletes the sessions with these ids (all sessions if undefined), except the session `but`. Returns the number of
 * deleted sessions.
 */
export async function deleteLoginSessions(
  db: Database,
  ids: readonly number[] | undefined,
  but: number | null = null,
): Promise<number> {
  const rows = await db.adhoc(
    `delete from login_session where ($1::int[] is null or id = any($1)) and id is distinct from $2 returning id`,
    [ids ?? null, but],
  )
  return rows.length
}

export async function deleteSessionsOfKey(db: Database, keyId: number): Promise<void> {
  await db.adhoc('delete from login_session where key_id = $1', [keyId])
}

export async function deleteLoginSession(db: Database, hash: Buffer): Promise<boolean> {
  return (
    (await db.adhoc('delete from login_session where hash = $1 returning id', [hash])).length > 0
  )
}

/**
 * Records that a session was used, unless a use within the last 30 s is recorded. Several servers may report the same
 * use.
 */
export async function touchLoginSession(db: Database, id: number): Promise<void> {
  await db.rows(
    'login-session-used',
    `update login_session set last_used_at = now() where id = $1 and last_used_at < now() - interval '30 seconds'`,
    [id],
  )
}
