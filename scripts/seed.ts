import { parseArgs } from 'node:util'
import { loadConfig } from '../server/config.ts'
import { createLogger } from '../server/log.ts'
import { GroupRollUps } from '../server/loop/group-roll-ups.ts'
import { Database } from '../server/store/database.ts'
import { openDatabase } from '../server/store/postgres/connect.ts'
import { runningEmbeddedUrl } from '../server/store/postgres/embedded.ts'
import { seedBatches } from '../server/store/seeded/seed-batches.ts'

// npm run seed -- --samples N: made-up runs, to see how the pages do with a lot of data.

const { values } = parseArgs({
  options: {
    samples: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(`npm run seed -- [--samples N] [--seed K]

Fills the database of the service (REWARDOPS_DATA_DIR or DATABASE_URL) with N made-up samples in five runs, whose names
begin with "seeded-" and which the pages mark. The same seed gives the same numbers. The service may run meanwhile.

  --samples N   default 1,000,000; 10,000,000 need 10 GB and some ten minutes
  --seed K      default 1`)
  process.exit(0)
}
const samples = whole('samples', 1, 1e9)
const seed = whole('seed', 0, 1e6)

const config = loadConfig({ ...process.env, LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn' })
const log = createLogger(config.logLevel, 'seed')
const running = config.databaseUrl ?? runningEmbeddedUrl(config.dataDir)
const database = await openDatabase({ databaseUrl: running, dataDir: config.dataDir, log })
// Nobody waits for a commit; a crash in between means seeding again.
const db = new Database(database.url, log, { max: 2, name: 'rewardops seed', lazyCommits: true })
const startedAt = performance.now()
const seconds = () => ((performance.now() - startedAt) / 1_000).toFixed(1)
try {
  let told = 0
  const done = await seedBatches(db, {
    samples,
    seed,
    onBatch({ batches, samples: made }) {
      if (performance.now() - told < 1_000 && made < samples) return
      told = performance.now()
      console.log(
        `${made.toLocaleString('en')} samples in ${batches.toLocaleString('en')} batches, ${seconds()} s`,
      )
    },
  })
  console.log('rolling up …')
  await new GroupRollUps(db, log).all()
  console.log(
    `${done.samples.toLocaleString('en')} samples in ${done.batches.toLocaleString('en')} batches of ${done.runs.length} runs, ${seconds()} s`,
  )
} finally {
  await db.close()
  await database.close()
}

function whole(name: 'samples' | 'seed', from: number, to: number): number {
  const value = Number(values[name])
  if (Number.isSafeInteger(value) && value >= from && value <= to) return value
  console.error(`--${name} must be a whole number from ${from} to ${to.toLocaleString('en')}`)
  process.exit(2)
}
