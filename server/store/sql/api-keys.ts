import type { KeyAccess, Role } from '../../contract/roles.ts'
import { ADVISORY_LOCKS } from '../advisory-locks.ts'
import type { Client, Database } from '../database.ts'

export interface ApiKeyRow {
  id: number
  name: string
  role: Role
  access: KeyAccess
  run_prefix: string | null
  hash: Buffer
  /** The hash of the key before the last rotation, valid until `previous_until`. */
  previous_hash: Buffer | null
  previous_until: Date | null
  prefix: string
  created_at: Date
  created_by: string
  expires_at: Date | null
  last_used_at: Date | null
  revoked_at: Date | null
  revoked_by: string | null
}

const COLUMNS = `id, name, role, access, run_prefix, hash, previous_hash, previous_until, prefix, created_at, created_by, expires_at, last_used_at,
  revoked_at, revoked_by`

export function livingKeys(db: Database, limit: number): Promise<ApiKeyRow[]> {
  return db.rows(
    'keys-living',
    `select ${COLUMNS} from api_key where revoked_at is null order by id limit $1`,
    [limit],
  )
}

export function listedKeys(db: Database, limit: number): Promise<ApiKeyRow[]> {
  return db.rows(
    'keys-listed',
    `select ${COLUMNS} from api_key order by revoked_at is not null, id desc limit $1`,
    [limit],
  )
}

/** Stores a key. Throws SQLSTATE 23505 on `api_key_name_living` if its name is taken. */
export async function insertKey(
  client: Client,
  key: {
    name: string
    role: Role
    access: KeyAccess
    runPrefix: string | null
    hash: Buffer
    sessionHash: Buffer
    prefix: string
    createdBy: string
    expiresInDays: number | null
  },
): Promise<ApiKeyRow> {
  const { rows } = await client.query<ApiKeyRow>(
    `insert into api_key (name, role, access, run_prefix, hash, session_hash, prefix, created_by, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, now() + $9::int * interval '1 day') returning ${COLUMNS}`,
    [
      ...[key.name, key.role, key.access, key.runPrefix, key.hash, key.sessionHash, key.prefix],
      ...[key.createdBy, key.expiresInDays],
    ],
  )
  return rows[0]!
}

/** Replaces a key that is not revoked. The previous key stays valid for `overlapMs`. */
export async function rotateKey(
  db: Database,
  id: number,
  next: { hash: Buffer; sessionHash: Buffer; prefix: string },
  overlapMs: number,
): Promise<ApiKeyRow | undefined> {
  const [row] = await db.adhoc<ApiKeyRow>(
    `update api_key set hash = $2, session_hash = $3, prefix = $4,
       previous_hash = case when $5::float8 > 0 then hash end,
       previous_until = case when $5::float8 > 0 then now() + $5 * interval '1 millisecond' end
     where id = $1 and revoked_at is null returning ${COLUMNS}`,
    [id, next.hash, next.sessionHash, next.prefix, overlapMs],
  )
  return row
}

export async function keyById(db: Database, id: number): Promise<ApiKeyRow | undefined> {
  const [row] = await db.adhoc<ApiKeyRow>(`select ${COLUMNS} from api_key where id = $1`, [id])
  return row
}

export async function renameKey(
  db: Database,
  id: number,
  name: string,
): Promise<ApiKeyRow | undefined> {
  const [row] = await db.adhoc<ApiKeyRow>(
    `update api_key set name = $2 where id = $1 and revoked_at is null returning ${COLUMNS}`,
    [id, name],
  )
  return row
}

/**
 * Revokes a key. With `keepAdmin` (API keys are required, and REWARDOPS_API_KEYS is empty), the last admin key without
 * an expiry is kept and false is returned, even if the last two such keys are revoked concurrently.
 */
export async function revokeKey(
  db: Database,
  id: number,
  by: string,
  keepAdmin: boolean,
): Promise<boolean> {
  return db.transaction(async (client) => {
    await client.query('select pg_advisory_xact_lock($1)', [ADVISORY_LOCKS.apiKeys])
    if (keepAdmin) {
      const { rows } = await client.query<{ n: number }>(
        `select count(*)::int as n from api_key
         where role = 'admin' and access = 'full' and revoked_at is null and expires_at is null and id <> $1`,
        [id],
      )
      if (rows[0]!.n === 0) return false
    }
    await client.query(
      'update api_key set revoked_at = now(), revoked_by = $2 where id = $1 and revoked_at is null',
      [id, by],
    )
    return true
  })
}

export async function touchKey(db: Database, id: number): Promise<void> {
  await db.rows('key-used', 'update api_key set last_used_at = now() where id = $1', [id])
}
