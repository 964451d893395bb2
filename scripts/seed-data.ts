import { GroupRollUps } from '../server/background/group-roll-ups.ts'
import type { Logger } from '../server/log.ts'
import { Database } from '../server/store/database.ts'
import { openDatabase } from '../server/store/postgres/connect.ts'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { type Seeded, type SeedOptions, seedBatches } from '../server/store/seeded/seed-batches.ts'

/** Where made-up runs go, and how many samples they have. */
export interface SeedDataOptions extends Omit<SeedOptions, 'onBatch'> {
  /** The data folder of a service, which may run. */
  dataDir: string
  /** Instead of the folder's own database; null or absent: that one. */
  databaseUrl?: string | null
  /** Leaves a database that has batches as it is, instead of refusing it where it is seeded. */
  onlyWhenEmpty?: boolean
  log: Logger
  /** Told as batches are made, and with `rollingUp` when all are. */
  onProgress?(done: Seeded, rollingUp: boolean): void
}

/** What was made, or was there. */
export interface SeededData extends Seeded {
  /** It was there before: nothing was made. */
  before: boolean
  seconds: number
}

/**
 * Fills a service's database with made-up runs and rolls them up, so that pages need not wait for it.
 * @throws Error when seeded runs are there already, unless `onlyWhenEmpty`
 */
export async function seedData(options: SeedDataOptions): Promise<SeededData> {
  const { dataDir, log, onlyWhenEmpty = false, onProgress = () => {} } = options
  const startedAt = performance.now()
  const seconds = () => Math.round((performance.now() - startedAt) / 100) / 10
  const database = await openDatabase({
    databaseUrl: options.databaseUrl ?? runningEmbeddedUrl(dataDir),
    ...{ dataDir, log },
  })
  // Nobody waits for a commit; a crash in between means seeding again.
  const db = new Database(database.url, log, { max: 2, name: 'rewardops seed', lazyCommits: true })
  try {
    if (onlyWhenEmpty) {
      const [there] = await db.adhoc<{ samples: number; batches: number }>(
        'select coalesce(sum(samples), 0)::float8 as samples, count(*)::int as batches from batch',
      )
      if (there !== undefined && there.batches > 0)
        return { runs: [], ...there, before: true, seconds: seconds() }
    }
    const done = await seedBatches(db, {
      ...options,
      onBatch: (made) => onProgress(made, false),
    })
    onProgress(done, true)
    await new GroupRollUps(db, log).all()
    return { ...done, before: false, seconds: seconds() }
  } finally {
    await db.close()
    await database.close()
  }
}
