import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { LeaseHolder } from '../cluster/lease-holder.ts'
import { ProcessRow } from '../cluster/process-row.ts'
import { createLogger } from '../log.ts'
import { testPool } from '../rewards/functions/testing/test-pool.ts'
import { Database } from '../store/database.ts'
import { FUNCTIONS_POOL, JobQueue, RULES_POOL } from '../store/job-queue.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { DirectScores } from './direct-scores.ts'
import type { RewardLoopWorker } from './reward-loop-worker.ts'
import { insertBatch, queueSamples, testWorker } from './testing/test-worker.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
const functions = testPool()
let db: Database
let row: ProcessRow
let leases: LeaseHolder
let queue: JobQueue
let worker: RewardLoopWorker

const RULE = { kind: 'rule' }
const SAMPLES = 2

beforeAll(async () => {
  db = new Database(database.url, log, { max: 8, name: 'test' })
  row = await ProcessRow.register(db, 'worker', false)
  queue = new JobQueue(db, log, { supervise: true })
  await queue.start()
  for (const pool of [FUNCTIONS_POOL, RULES_POOL]) await queue.ensure(pool)
})
afterAll(async () => {
  await functions.close()
  await queue.stop()
  await db.close()
})
beforeEach(() => {
  leases = new LeaseHolder(db, row.id, log)
  worker = testWorker({ db, row, queue, leases, functions: functions.pool })
})
afterEach(async () => {
  await worker.stop(0, 1_000)
  await leases.close()
})

const makeBatch = (reward: object) => insertBatch(db, reward, SAMPLES)
const enqueue = (pool: string, batchId: number) => queueSamples(db, queue, pool, batchId, SAMPLES)

const durations = () => {
  const { queue, router, service } = worker.counters.latency
  return [queue.total, router.total, service.total]
}

async function results(): Promise<{ scored: number; failed: number; samples: number }> {
  const [found] = await db.adhoc<{ scored: number; failed: number; samples: number }>(
    `select coalesce(sum(scored), 0)::int as scored, coalesce(sum(failed), 0)::int as failed,
       (select count(*)::int from sample where worker_id = $1 and status > 1) as samples
     from worker_slice where worker_id = $1`,
    [row.id],
  )
  return found!
}

describe('durations', () => {
  it('of scored samples are counted once', async () => {
    await enqueue(RULES_POOL, await makeBatch(RULE))
    worker.intake.pump(RULES_POOL)
    await waitFor('the results', () => worker.counters.scored === SAMPLES)
    expect(durations()).toEqual([SAMPLES, 0, SAMPLES])
  })

  it('of samples whose batch ended before their rules ran are not counted', async () => {
    const batchId = await makeBatch(RULE)
    await enqueue(RULES_POOL, batchId)
    worker.intake.pump(RULES_POOL)
    while (worker.counters.failed < SAMPLES) {
      worker.batchEnded(batchId)
      await new Promise((resolve) => setImmediate(resolve))
    }
    expect(durations()).toEqual([0, 0, 0])
  })

  it('of samples whose batch ended while they waited for its maxConcurrency are not counted', async () => {
    const source = functions.ref('export default () => new Promise(() => {})')
    const reward = { kind: 'function', function: source, maxConcurrency: 1 }
    const batchId = await makeBatch(reward)
    await enqueue(FUNCTIONS_POOL, batchId)
    worker.intake.pump(FUNCTIONS_POOL)
    await waitFor('the first call', () => worker.inFlight === 1)
    worker.batchEnded(batchId)
    await waitFor('the failures', () => worker.counters.failed === SAMPLES)
    expect(durations()).toEqual([0, 0, 0])
  })

  it('of a direct sample that is scored through the queue instead are not counted', async () => {
    const { counters } = worker
    const told: object[] = []
    const direct = new DirectScores({
      db,
      tools: { router: {}, functions: functions.pool, limits: {} } as never,
      workerId: row.id,
      clock: row.clock,
      counters,
      tell: (message) => told.push(message),
    })
    const sample = {
      ...{ dataSource: 'openai/gsm8k', prompt: '', response: 'a', groundTruth: 'a', extraInfo: {} },
      responseLength: null,
    }
    const batchId = await makeBatch(RULE)
    const message = { type: 'score', id: 1, batchId, acceptedAtMs: Date.now(), sample } as const
    const forgotten = direct.score(message)
    direct.forget(1)
    await forgotten
    expect([told.length, counters.scored, ...durations()]).toEqual([0, 0, 0, 0, 0])
    await direct.score({ ...message, id: 2 })
    expect([told.length, counters.scored, ...durations()]).toEqual([1, 1, 1, 0, 1])
  })
})

// No report is written here: a worker that is killed writes none.
describe('results that were written before the worker was killed', () => {
  beforeEach(() => db.adhoc('truncate sample, worker_slice, worker_minute'))

  it('are in the history of the fleet', async () => {
    await enqueue(RULES_POOL, await makeBatch(RULE))
    worker.intake.pump(RULES_POOL)
    const all = { scored: SAMPLES, failed: 0, samples: SAMPLES }
    await waitFor('the results', async () => (await results()).samples === SAMPLES)
    expect(await results()).toEqual(all)
    const minutes = await db.adhoc('select sum(scored)::int as scored from worker_minute')
    expect(minutes).toEqual([{ scored: SAMPLES }])
  })

  const SCORE = 'export default async ({ solutionStr }) => solutionStr.length\n'

  it.each([
    [
      'are the final ones of a post-processed group',
      '(scores) => scores',
      { scored: SAMPLES, failed: 0 },
    ],
    [
      'have failed if the post-processing of their group failed',
      "() => { throw new Error('no') }",
      { scored: 0, failed: SAMPLES },
    ],
  ])('%s', async (_, postProcess, expected) => {
    const source = functions.ref(`${SCORE}export const postProcessScores = ${postProcess}`)
    const reward = { kind: 'function', function: source, postProcess: source }
    await enqueue(FUNCTIONS_POOL, await makeBatch(reward))
    const timer = setInterval(() => worker.intake.pump(FUNCTIONS_POOL), 20)
    await waitFor('the group', async () => {
      const rows = await db.adhoc(
        'select 1 from sample where status < 2 and batch_id = (select max(id) from batch)',
      )
      return rows.length === 0
    }).finally(() => clearInterval(timer))
    expect(await results()).toEqual({ ...expected, samples: SAMPLES })
  })
})
