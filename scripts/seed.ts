import { parseArgs } from 'node:util'
import { loadConfig } from '../server/config.ts'
import { createLogger } from '../server/log.ts'
import { seedData } from './seed-data.ts'

// npm run seed -- --samples N: generates runs, to test the pages with millions of samples.

const { values } = parseArgs({
  options: {
    samples: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: '1' },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(`npm run seed -- [--samples N] [--seed K]

Fills the database of the service (REWARDOPS_DATA_DIR or DATABASE_URL) with N generated samples in six runs. The names of
the runs begin with "seeded-", and the pages mark them. For two steps, half of the responses in runs scored by
rules lack the answer format; the score of a component drifts; the policy of seeded-math-rule forgets some prompts. The
command also adds servers and workers with 30 days of history: one server is slow, another was ejected. The same seed
gives the same numbers. The service may run meanwhile.

  --samples N   default 1,000,000; from 20,000 on, each run has at least 30 steps; 10,000,000 need 10 GB and about ten
                minutes
  --seed K      default 1`)
  process.exit(0)
}
const samples = whole('samples', 1, 1e9)
const seed = whole('seed', 0, 1e6)

const config = loadConfig({ ...process.env, LOG_LEVEL: process.env.LOG_LEVEL ?? 'warn' })
const log = createLogger(config.logLevel, 'seed')
const startedAt = performance.now()
let reportedAt = 0
const done = await seedData({
  ...{ dataDir: config.dataDir, databaseUrl: config.databaseUrl, log, samples, seed },
  onProgress({ batches, samples: made }, rollingUp) {
    if (rollingUp) {
      console.log('rolling up …')
      return
    }
    if (performance.now() - reportedAt < 1_000 && made < samples) return
    reportedAt = performance.now()
    const seconds = ((reportedAt - startedAt) / 1_000).toFixed(1)
    console.log(
      `${made.toLocaleString('en')} samples in ${batches.toLocaleString('en')} batches, ${seconds} s`,
    )
  },
})
console.log(
  `${done.samples.toLocaleString('en')} samples in ${done.batches.toLocaleString('en')} batches of ${done.runs.length} runs, ${done.seconds.toFixed(1)} s`,
)

function whole(name: 'samples' | 'seed', from: number, to: number): number {
  const value = Number(values[name])
  if (Number.isSafeInteger(value) && value >= from && value <= to) return value
  console.error(`--${name} must be a whole number from ${from} to ${to.toLocaleString('en')}`)
  process.exit(2)
}
