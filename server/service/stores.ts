import { BackgroundTurns } from '../background/background-turns.ts'
import { ProcessRow } from '../cluster/process-row.ts'
import type { Config } from '../config.ts'
import type { Logger } from '../log.ts'
import { stopRequests } from '../stop-request.ts'
import { ADVISORY_LOCKS } from '../store/advisory-locks.ts'
import { openServerDatabases, type ServerDatabases } from '../store/connection-budget.ts'
import type { Database } from '../store/database.ts'
import {
  FUNCTIONS_POOL,
  INTERACTIVE_POOL,
  JobQueue,
  RULES_POOL,
  SANDBOX_POOL,
  SERVICES_POOL,
} from '../store/job-queue.ts'
import { openDatabase } from '../store/postgres/connect.ts'
import { openSecrets } from '../store/secret-keys.ts'
import { addPool } from '../store/sql/pools.ts'
import { currentTextBucket } from '../store/text-partitions.ts'

export interface Stores {
  database: Awaited<ReturnType<typeof openDatabase>>
  databases: ServerDatabases
  queue: JobQueue
  /** The table row that makes this process known to other processes. */
  row: ProcessRow
  turns: BackgroundTurns
}

export async function openStores(config: Config, log: Logger): Promise<Stores> {
  const opening = openDatabase({
    databaseUrl: config.databaseUrl,
    dataDir: config.dataDir,
    signal: stopRequests.signal,
    log,
  })
  stopRequests.whileStarting(async () => (await opening).close())
  const database = await opening
  const databases = openServerDatabases(database.url, log)
  try {
    const { api } = databases
    databases.setSecrets(await openSecrets(api, config.secrets, { mayCreate: true, log }))
  } catch (error) {
    await databases.close()
    await database.close()
    throw error
  }
  const queue = new JobQueue(databases.api, log, { supervise: true })
  await prepare(databases.api, queue)
  const row = await ProcessRow.register(databases.control, 'server', false)
  return { database, databases, queue, row, turns: new BackgroundTurns(databases.api, row.id) }
}

/** Prepares queues and partitions under a lock, because several processes may start together on a new database. */
async function prepare(db: Database, queue: JobQueue): Promise<void> {
  await db.holding(async (client) => {
    await client.query('select pg_advisory_lock($1)', [ADVISORY_LOCKS.start])
    await queue.start()
    for (const pool of [RULES_POOL, FUNCTIONS_POOL, SERVICES_POOL, INTERACTIVE_POOL]) {
      await queue.ensure(pool)
      await addPool(db, pool)
    }
    await queue.ensure(SANDBOX_POOL)
    await currentTextBucket(db)
    await client.query('select pg_advisory_unlock($1)', [ADVISORY_LOCKS.start])
  })
}
