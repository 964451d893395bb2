import { InMemorySpanExporter, type ReadableSpan } from '@opentelemetry/sdk-trace'
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import type { TracingConfig } from '../config.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { spanIdOf, spanPaths } from '../trace-context.ts'
import { Tracing } from './tracing.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
const TRACE = { traceId: 'ab'.repeat(16), parentId: 'cd'.repeat(8), isSampled: true, state: null }

let db: Database
let exporter: InMemorySpanExporter
let tracing: Tracing

const tracingWith = (config: Partial<TracingConfig> = {}) =>
  new Tracing({
    config: {
      protocol: 'http/protobuf',
      sampler: 'parentbased_traceidratio',
      ratio: 0.01,
      ...config,
    },
    exporter,
    version: '1.2.3',
    db,
    log,
  })

beforeAll(() => {
  db = new Database(database.url, log, { max: 2, name: 'test' })
})
afterAll(() => db.close())
beforeEach(async () => {
  await db.adhoc('truncate run, batch, sample_group, sample, attempt, server')
  exporter = new InMemorySpanExporter()
  tracing = tracingWith()
})

/** A batch with a group of three samples: scored by rule, scored after a retry, and failed. */
async function insertTraced(endedAgo = '1 s'): Promise<number> {
  const server = await insertServer(db, { name: 'rm-0', model: 'm', url: 'http://rm:8000' })
  await db.adhoc("insert into run (id, name) values (1, 'r')")
  const [batch] = await db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, failed, groups,
       groups_completed, text_bucket, submitted_at, completed_at, rolled_up, mean, trace, trace_due)
     values (1, 4, 'train', 'completed', true, '{}', 'rule', 3, 2, 1, 1, 1, now(), now() - $1::interval - interval '9 s',
       now() - $1::interval, true, 0.5, $2, true) returning id`,
    [endedAgo, JSON.stringify(TRACE)],
  )
  const id = batch!.id
  await db.adhoc(
    `insert into sample_group (batch_id, no, uid, received, ended, failed, seq, completed_at, signal)
     values ($1, 0, 'u', 3, 3, 1, 1, now(), 'varied')`,
    [id],
  )
  const sample = (idx: number, status: number, attempts: number, fields: object) => {
    const row = { batch_id: id, idx, group_no: 0, status, attempts, data_source: 'd', ...fields }
    return db.adhoc(
      `insert into sample (${Object.keys(row).join(', ')}, dispatched_at, score_ms)
       values (${Object.keys(row).map((_, i) => `$${i + 1}`)}, now() - interval '5 s', 20)`,
      Object.values(row),
    )
  }
  await sample(0, 2, 1, { score: 1, verdict: 'equal' })
  await sample(1, 2, 2, { score: 0.25, server_id: server })
  await sample(2, 3, 1, { reason: 'timeout', server_id: server })
  const attempt = (idx: number, no: number, call: number, outcome: string, reason: string | null) =>
    db.adhoc(
      `insert into attempt (batch_id, idx, attempt, server_id, worker_id, started_at, queue_ms, backoff_ms, service_ms,
         outcome, reason, status_code, call_no)
       values ($1, $2, $3::smallint, $4, 1, now() - (5 - $3::smallint::int) * interval '1 s', 300, 100, 250, $5, $6, 503, $7)`,
      [id, idx, no, server, outcome, reason, call],
    )
  await attempt(1, 1, 1, 'busy', 'server_busy')
  await attempt(1, 2, 2, 'ok', null)
  await attempt(2, 1, 1, 'fault', 'timeout')
  return id
}

const ms = ([seconds, nanos]: readonly [number, number]) => Math.round(seconds * 1e3 + nanos / 1e6)

it('exports batch → group → attempt → request once, from the stored attempts', async () => {
  const id = await insertTraced()
  await tracing.tick()
  const spans = exporter.getFinishedSpans()
  expect(spans.every((span) => span.spanContext().traceId === TRACE.traceId)).toBe(true)
  expect(new Set(spans.map((span) => span.spanContext().spanId)).size).toBe(spans.length)
  const named = (name: string) => spans.filter((span) => span.name === name)
  const idOf = (span: ReadableSpan | undefined) => span?.spanContext().spanId
  const parentOf = (span: ReadableSpan | undefined) => span?.parentSpanContext?.spanId
  const [batch] = named('rl.reward.batch')
  const [group] = named('rl.reward.group')
  const attempts = named('rl.reward.attempt')
  const requests = named('score m')
  expect(spans).toHaveLength(1 + 1 + 4 + 3)
  expect(parentOf(batch)).toBe(TRACE.parentId)
  expect(parentOf(group)).toBe(idOf(batch))
  expect(attempts.map(parentOf)).toEqual(Array(4).fill(idOf(group)))
  expect(requests.map(parentOf)).toEqual(attempts.slice(1).map(idOf))
  // The worker sent this id to the server.
  expect(idOf(requests[1])).toBe(spanIdOf(TRACE, spanPaths.call(id, 1, 2)))
  expect(batch?.attributes).toMatchObject({
    'rl.run.id': 'r',
    'rewardops.step': 4,
    'rewardops.batch.id': `b${id}`,
    'rewardops.samples.failed': 1,
  })
  expect(
    attempts.map(({ attributes: a }) => [
      a['rewardops.sample.id'],
      a['rl.reward.score'],
      a['error.type'],
    ]),
  ).toEqual([
    [`b${id}-0`, 1, undefined],
    [`b${id}-1`, undefined, 'server_busy'],
    [`b${id}-1`, 0.25, undefined],
    [`b${id}-2`, undefined, 'timeout'],
  ])
  expect(attempts[0]?.events).toMatchObject([
    {
      name: 'gen_ai.evaluation.result',
      attributes: {
        'gen_ai.evaluation.name': 'rule',
        'gen_ai.evaluation.score.value': 1,
        'gen_ai.evaluation.score.label': 'equal',
      },
    },
  ])
  expect(requests[0]?.attributes).toMatchObject({
    'gen_ai.operation.name': 'score',
    'gen_ai.request.model': 'm',
    'gen_ai.provider.name': 'vllm',
    'server.address': 'rm',
    'server.port': 8000,
    'http.response.status_code': 503,
  })
  expect([ms(attempts[1]!.duration), ms(requests[0]!.duration)]).toEqual([650, 250])
  expect(spans[0]?.resource.attributes).toMatchObject({ 'service.name': 'rewardops' })
  expect(tracing.counts).toEqual({ exported: 9, droppedBatches: 0 })
  await tracing.tick()
  expect(exporter.getFinishedSpans()).toHaveLength(9)
})

it('repeats an export that failed, and gives a batch up an hour after its end', async () => {
  await insertTraced()
  const working = exporter.export.bind(exporter)
  exporter.export = (_, done) => done({ code: 1, error: new Error('no collector') })
  await tracing.tick()
  exporter.export = working
  await tracing.tick()
  expect(exporter.getFinishedSpans()).toHaveLength(9)
  await db.adhoc("update batch set trace_due = true, completed_at = now() - interval '2 hours'")
  exporter.export = (_, done) => done({ code: 1 })
  // The clock of this machine, which is behind the database's, does not matter.
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3 * 3_600_000 })
  await tracing.tick().finally(() => vi.useRealTimers())
  exporter.export = working
  await tracing.tick()
  expect(exporter.getFinishedSpans()).toHaveLength(9)
  expect(tracing.counts).toEqual({ exported: 9, droppedBatches: 1 })
})

it('follows the trace of the caller, and samples other batches by the ratio', () => {
  const caller = (flags: string) => ({
    traceparent: `00-${TRACE.traceId}-${TRACE.parentId}-${flags}`,
  })
  expect(tracing.contextOf(caller('01'))).toEqual(TRACE)
  expect(tracing.contextOf(caller('00'))).toEqual({ ...TRACE, isSampled: false })
  const share = (of: Tracing) =>
    Array.from({ length: 4_000 }, () => of.contextOf({})).filter(Boolean).length / 4_000
  expect(share(tracing)).toBeGreaterThan(0)
  expect(share(tracing)).toBeLessThan(0.03)
  expect(share(tracingWith({ ratio: 0 }))).toBe(0)
  expect(share(tracingWith({ sampler: 'always_on' }))).toBe(1)
  expect(tracingWith({ sampler: 'always_off' }).contextOf(caller('01'))?.isSampled).toBe(false)
})
