import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { createLogger } from '../server/log.ts'
import { migrate } from '../server/store/migrate.ts'
import { startEmbeddedPostgres } from '../server/store/postgres/embedded.ts'
import { THROWAWAY_SETTINGS } from '../server/store/postgres/settings.ts'
import { sqlFromDatabaseToSchema } from './schema-engine.ts'

const root = join(import.meta.dirname, '..')

/**
 * Selects partitions, which are left out of the comparison. `schema.prisma` cannot express them, so Prisma would drop
 * them.
 */
const PARTITIONS = `select n.nspname || '.' || c.relname as name
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relispartition and c.relkind in ('r', 'p')`

/**
 * Returns the SQL that the migrations lack compared with the schema; empty when they agree. The migrations are
 * applied to a temporary Postgres as in the service, and the tables are compared. Functions, triggers, checks,
 * storage parameters and expression indexes exist only in the migrations and are ignored.
 * @throws MigrationError when a migration does not apply
 */
export async function missingSql(schemaFile: string, migrationsDir: string): Promise<string> {
  const dataDir = mkdtempSync(join(tmpdir(), 'rewardops-check-'))
  const postgres = await startEmbeddedPostgres({
    dataDir,
    log: createLogger('error', 'check-migrations'),
    settings: THROWAWAY_SETTINGS,
  })
  try {
    const url = postgres.adminUrl('postgres')
    if (existsSync(migrationsDir)) await migrate(url, { dir: migrationsDir })
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const partitions = (await client.query<{ name: string }>(PARTITIONS)).rows.map((r) => r.name)
    await client.end()
    return await sqlFromDatabaseToSchema(url, readFileSync(schemaFile, 'utf8'), partitions)
  } finally {
    await postgres.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      write: { type: 'string' },
      schema: { type: 'string', default: join(root, 'prisma/schema.prisma') },
      migrations: { type: 'string', default: join(root, 'prisma/migrations') },
    },
  })
  const sql = await missingSql(values.schema, values.migrations)
  if (sql === '') return console.log('prisma/schema.prisma and prisma/migrations agree')
  if (values.write === undefined) {
    console.log(`-- The migrations lack these parts of ${relative(root, values.schema)}:\n${sql}`)
    console.error('Write it with: node scripts/check-migrations.ts --write <name>')
    process.exitCode = 1
    return
  }
  if (!/^[a-z0-9_]+$/.test(values.write)) {
    throw new Error(`--write ${values.write}: expected a name of lower-case letters, digits and _`)
  }
  const stamp = new Date().toISOString().replace(/\D/g, '').slice(0, 14)
  const dir = join(values.migrations, `${stamp}_${values.write}`)
  mkdirSync(dir, { recursive: true })
  writeFileSync(join(dir, 'migration.sql'), `${sql}\n`)
  console.log(
    `wrote ${relative(process.cwd(), join(dir, 'migration.sql'))}; read it before you commit it`,
  )
}

if (import.meta.main) await main()
