import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createLogger } from '../../log.ts'
import { migrate } from '../migrate.ts'
import { openDatabase } from './connect.ts'
import { runningEmbeddedUrl, startEmbeddedPostgres } from './embedded.ts'
import { SUPERUSER } from './roles.ts'
import { THROWAWAY_SETTINGS } from './settings.ts'

const log = createLogger('silent', 'test')
let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'rewardops-roles-'))
})
afterEach(() => rmSync(dataDir, { recursive: true, force: true }))

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}

const OWNED = `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relowner = '${SUPERUSER}'::regrole and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
  union all select nspname from pg_namespace where nspowner = '${SUPERUSER}'::regrole
    and nspname !~ '^pg_' and nspname <> 'information_schema'
  union all select proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where proowner = '${SUPERUSER}'::regrole and nspname !~ '^pg_' and nspname <> 'information_schema'`

test('a data folder of an earlier version still works, with a password and without superuser rights', async () => {
  const options = { dataDir, log, settings: THROWAWAY_SETTINGS }
  const earlier = await startEmbeddedPostgres(options)
  await query(earlier.adminUrl('postgres'), 'create database rewardops')
  await migrate(earlier.adminUrl('rewardops'))
  await query(earlier.adminUrl('rewardops'), 'create table kept as select 7 as n')
  await earlier.stop()
  rmSync(join(dataDir, 'postgres.passwords'))
  writeFileSync(join(dataDir, 'postgres/pg_hba.conf'), 'local all all trust\n')

  const database = await openDatabase({ databaseUrl: null, ...options })
  try {
    const { url, embedded } = database
    expect(await query(url, 'table kept')).toEqual([{ n: 7 }])
    expect(await query(url, "select current_setting('is_superuser') as is")).toEqual([
      { is: 'off' },
    ])
    expect(await query(embedded?.adminUrl('rewardops') as string, OWNED)).toEqual([])
    await expect(query(url, "copy kept to program 'id'")).rejects.toThrow(/permission denied/)
    expect(statSync(join(dataDir, 'postgres.passwords')).mode & 0o777).toBe(0o600)
    expect(runningEmbeddedUrl(dataDir)).toBe(url)
    for (const role of [SUPERUSER, new URL(url).username]) {
      for (const password of ['', 'wrong']) {
        const other = new URL(url)
        Object.assign(other, { username: role, password })
        await expect(query(other.href, 'select')).rejects.toThrow(/password/)
      }
    }
  } finally {
    await database.close()
  }
})
