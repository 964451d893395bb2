import { GroupRollUps } from '../server/background/group-roll-ups.ts'
import type { Logger } from '../server/log.ts'
import { Database } from '../server/store/database.ts'
import { openDatabase } from '../server/store/postgres/connect.ts'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { type Seeded, type SeedOptions, seedBatches } from '../server/store/seeded/seed-batches.ts'

export interface SeedDataOptions extends Omit<SeedOptions, 'onBatch'> {
  /** The data folder of a service, which may be running. */
  dataDir: string
  /** URL of the database to use. If it is null or undefined, the data folder's own database is used. */
  databaseUrl?: string | null
  /**
   * If true, a database that already has batches stays unchanged. If false, a database that already has seeded runs
   * causes an error.
   */
  onlyWhenEmpty?: boolean
  log: Logger
  /** Called after each batch, and with `rollingUp` once all batches are created. */
  onProgress?(done: Seeded, rollingUp: boolean): void
}

export interface SeededData extends Seeded {
  /** Whether the database already had batches, so nothing was generated. */
  isUnchanged: boolean
  seconds: number
}

/**
 * Fills a service's database with generated runs and their roll-ups.
 * @throws Error when seeded runs already exist, unless `onlyWhenEmpty`
 */
export async function seedData(options: SeedDataOptions): Promise<SeededData> {
  const { dataDir, log, onlyWhenEmpty = false, onProgress = () => {} } = options
  const startedAt = performance.now()
  const seconds = () => Math.round((performance.now() - startedAt) / 100) / 10
  const database = await openDatabase({
    databaseUrl: options.databaseUrl ?? runningEmbeddedUrl(dataDir),
    ...{ dataDir, log },
  })
  // Commits are asynchronous; after a crash the database is seeded again.
  const db = new Database(database.url, log, { max: 2, name: 'rewardops seed', lazyCommits: true })
  try {
    if (onlyWhenEmpty) {
      const [there] = await db.adhoc<{ samples: number; batches: number }>(
        'select coalesce(sum(samples), 0)::float8 as samples, count(*)::int as batches from batch',
      )
      if (there !== undefined && there.batches > 0)
        return { runs: [], ...there, isUnchanged: true, seconds: seconds() }
    }
    const done = await seedBatches(db, {
      ...options,
      onBatch: (made) => onProgress(made, false),
    })
    onProgress(done, true)
    await new GroupRollUps(db, log).all()
    return { ...done, isUnchanged: false, seconds: seconds() }
  } finally {
    await db.close()
    await database.close()
  }
}
