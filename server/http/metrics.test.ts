import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { rawRequest } from '../../testkit/processes/trpc-call.ts'
import {
  parsePrometheusText,
  type ScrapedFamily,
  seriesValue,
} from '../../testkit/service/prometheus-text.ts'
import { insertServer } from '../cluster/testing/servers.ts'
import { createLogger } from '../log.ts'
import { LatencyHistogram } from '../router/latency-histogram.ts'
import { Database } from '../store/database.ts'
import { addServerCalls } from '../store/sql/server-reports.ts'
import { testQueueForFile } from '../store/testing/test-queue.ts'
import { Access } from './access.ts'
import type { ProcessView } from './metric-families.ts'
import { createMetrics, describeMetrics } from './metrics.ts'

const database = testQueueForFile({ max: 4, level: 'silent' })
const log = createLogger('silent', 'test')

let db: Database
let server: Server | undefined
let own: ProcessView

beforeAll(() => {
  db = database.db
})
beforeEach(async () => {
  own = {}
  await db.adhoc('truncate server, server_minute, batch, process, pool, lease')
})
afterEach(() => server?.close())

async function scraper(from: Database = db) {
  const handle = createMetrics({
    db: from,
    access: new Access({ apiKeys: [], trustedProxies: [], allowedHosts: [], basePath: '' }, log),
    version: '1.2.3',
    own: () => own,
    liveStreams: () => 0,
    orphanedSamples: () => 0,
    traces: null,
    log,
  })
  server = createServer((req, res) => void handle(req, res))
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`
  let last = ''
  return async (): Promise<Map<string, ScrapedFamily>> => {
    for (;;) {
      const { text, status, headers } = await rawRequest(url, {})
      expect(status).toBe(200)
      expect(headers['content-type']).toContain('text/plain; version=0.0.4')
      if (text !== last) {
        last = text
        return parsePrometheusText(text)
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}

async function calls(serverId: number, fields: object, ...durationsMs: number[]) {
  const histogram = new LatencyHistogram()
  for (const ms of durationsMs) histogram.add(ms)
  await addServerCalls(db, [
    {
      serverId,
      requests: 0,
      errors: 0,
      retries: 0,
      hedges: 0,
      busy: 0,
      corrupt: 0,
      client: 0,
      ejections: 0,
      inFlightSeconds: 0,
      capacitySeconds: 0,
      tokens: 0,
      latency: histogram.toJSON(),
      ...fields,
    },
  ])
}

const worker = async (stats: object) => {
  const [row] = await db.adhoc<{ id: number }>(
    "insert into process (role, host, pid, local, state, stats) values ('worker', 'h', 1, true, 'alive', $1) returning id",
    [JSON.stringify(stats)],
  )
  return row!.id
}

describe('a server', () => {
  it('is reported with its counters, the classes of its errors and its state in each process', async () => {
    const id = await insertServer(db, { name: 'judge "a"\\', model: 'm\n1', max_in_flight: 12 })
    const label = { server: 'judge "a"\\', model: 'm\n1', engine: 'vllm' }
    const a = await worker({
      servers: {
        [id]: {
          inFlight: 3,
          slots: 6,
          requestsPerSecond: 1,
          ejections: 2,
          tokensPerSecond: 100,
          health: 'ejected',
          waiting: 5,
        },
      },
    })
    await worker({
      servers: { [id]: { inFlight: 1, slots: 2, requestsPerSecond: 1, tokensPerSecond: null } },
    })
    own = {
      [id]: { inFlight: 2, slots: 4, requestsPerSecond: 0, health: 'ok', ejections: 1, waiting: 1 },
    }
    await db.adhoc(
      "insert into lease (resource, worker_id, slots, demand, expires_at) values ($1, 1, 7, 9, now() + interval '1 minute'), ($1, 2, 5, 9, now() - interval '1 second')",
      [`server:${id}`],
    )
    await db.adhoc(`update server set self_test = '{"verdict": "squashed"}' where id = $1`, [id])
    const scrape = await scraper()
    await scrape()
    await calls(id, {
      requests: 10,
      errors: 7,
      retries: 3,
      hedges: 2,
      busy: 1,
      corrupt: 1,
      client: 2,
      tokens: 4_000,
    })
    const m = await scrape()
    const of = (name: string, more = {}) =>
      seriesValue(m, `rewardops_server_${name}`, { ...label, ...more })
    expect(of('up')).toBe(1)
    expect([of('state', { state: 'ready' }), of('state', { state: 'sleeping' })]).toEqual([1, 0])
    expect([of('in_flight'), of('slots'), of('waiting_samples')]).toEqual([6, 12, 6])
    expect([of('lease_slots'), of('limit'), of('tokens_per_second')]).toEqual([7, 12, 100])
    expect([of('requests_total'), of('retries_total')]).toEqual([10, 3])
    expect([of('hedges_total'), of('tokens_total')]).toEqual([2, 4_000])
    const classes = ['client', 'busy', 'corrupt', 'fault']
    expect(classes.map((name) => of('errors_total', { class: name }))).toEqual([2, 1, 1, 3])
    expect(of('ejections_total', { process: `w${a}` })).toBe(2)
    expect(of('ejections_total', { process: 'server' })).toBe(1)
    expect(of('health_processes', { health: 'ejected' })).toBe(1)
    expect(of('self_test', { verdict: 'squashed' })).toBe(1)
    expect(of('self_test', { verdict: 'raw' })).toBe(0)
  })

  it('reports its durations as a histogram with the bounds of the router’s buckets', async () => {
    const id = await insertServer(db, { name: 'rm' })
    const scrape = await scraper()
    await scrape()
    await calls(id, {}, 0.01, 1.5, 1.7, 100, 102.5, 400_000)
    await calls(id, {}, 3_000)
    const m = await scrape()
    const name = 'rewardops_server_request_duration_seconds'
    const below = (le: string) => seriesValue(m, `${name}_bucket`, { server: 'rm', le })
    expect([below('0.0016'), below('0.0032'), below('0.1024'), below('0.2048')]).toEqual([
      2, 3, 4, 5,
    ])
    expect(seriesValue(m, `${name}_count`, { server: 'rm' })).toBe(7)
    const sum = seriesValue(m, `${name}_sum`, { server: 'rm' })
    expect(Math.abs(sum / 403.2 - 1)).toBeLessThan(0.2)
  })

  it('disappears from the metrics when it is removed', async () => {
    const id = await insertServer(db, { name: 'rm' })
    const scrape = await scraper()
    expect(seriesValue(await scrape(), 'rewardops_server_up', { server: 'rm' })).toBe(1)
    await db.adhoc('update server set removed_at = now() where id = $1', [id])
    const text = [...(await scrape()).values()].flatMap((f) => f.series)
    expect(text.filter((s) => s.labels.server !== undefined)).toEqual([])
  })
})

describe('the reward loop', () => {
  it('is reported by its batches, however long ago they ended', async () => {
    const batch = (
      status: string,
      samples: number,
      scored: number,
      failed: number,
      ended: string | null,
    ) =>
      db.adhoc(
        `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, failed,
           groups, groups_completed, text_bucket, completed_at)
         values (1, 1, 'train', $1, true, '{}', 'rule', $2, $3, $4, 4, 2, now(), now() - $5::interval)`,
        [status, samples, scored, failed, ended],
      )
    await batch('completed', 10, 9, 1, '1 hour')
    await batch('cancelled', 10, 4, 6, '1 hour')
    await batch('completed', 10, 10, 0, '1 second')
    await batch('running', 10, 3, 1, null)
    const scrape = await scraper()
    for (let round = 0; round < 3; round++) {
      const m = await scrape()
      const by = (status: string) => seriesValue(m, 'rewardops_batches', { status })
      expect(['open', 'running', 'completed', 'cancelled'].map(by)).toEqual([0, 1, 2, 1])
      expect(seriesValue(m, 'rewardops_samples_pending')).toBe(6)
      expect(seriesValue(m, 'rewardops_samples_scored_total')).toBe(26)
      expect(seriesValue(m, 'rewardops_samples_failed_total')).toBe(8)
      expect(seriesValue(m, 'rewardops_groups_completed_total')).toBe(8)
    }
  })

  it('is reported by the depth of its queues', async () => {
    await db.adhoc("insert into pool (name) values ('rules'), ('idle')")
    await database.queue.ensure('rules')
    await db.transaction((client) =>
      database.queue.insert(
        'rules',
        [1, 2, 3].map((b) => ({ b, i: [0, 1], t: 0 })),
        { run: 'r', priority: 0, client },
      ),
    )
    await database.queue.fetch('rules', 1, [])
    const m = await (await scraper())()
    const depth = (pool: string, state: string) =>
      seriesValue(m, 'rewardops_queue_jobs', { pool, state })
    expect([depth('rules', 'queued'), depth('rules', 'active')]).toEqual([2, 1])
    expect([depth('idle', 'queued'), depth('idle', 'active')]).toEqual([0, 0])
  })
})

it('reports workers in base units, and leaves out dead workers', async () => {
  const id = await worker({
    samplesPerSecond: 12.5,
    inFlight: 7,
    eventLoopP99Ms: 250,
    rssBytes: 1e8,
  })
  const dead = await worker({})
  await db.adhoc("update process set state = 'dead' where id = $1", [dead])
  const m = await (await scraper())()
  const of = (name: string) => seriesValue(m, `rewardops_worker_${name}`, { worker: `w${id}` })
  expect([of('samples_per_second'), of('in_flight_samples')]).toEqual([12.5, 7])
  expect([of('event_loop_p99_seconds'), of('resident_memory_bytes')]).toEqual([0.25, 1e8])
  expect(seriesValue(m, 'rewardops_workers')).toBe(1)
  expect(m.get('rewardops_worker_in_flight_samples')?.series).toHaveLength(1)
})

it('reports this process even when the database does not answer', async () => {
  const gone = new Database('postgres://nobody@127.0.0.1:1/none', log, { max: 1, name: 'test' })
  const m = await (await scraper(gone))()
  expect(seriesValue(m, 'rewardops_database_up')).toBe(0)
  expect(seriesValue(m, 'rewardops_build_info', { version: '1.2.3' })).toBe(1)
  expect(seriesValue(m, 'rewardops_process_resident_memory_bytes')).toBeGreaterThan(1e6)
  expect(m.has('rewardops_server_up')).toBe(false)
  await gone.close()
})

it('has a plain-text help for every metric, and every metric is in the docs', async () => {
  await worker({})
  const m = await (await scraper())()
  expect(m.get('rewardops_wrong_keys_total')?.help).toMatch(
    /unauthorized, .* the back-off of their IP address\.$/,
  )
  const helps = [...m.values()].map(({ help }) => help)
  expect(helps.filter((help) => /`|\]\(/.test(help))).toEqual([])
  const { tracing: _, ...sections } = describeMetrics()
  const described = Object.values(sections).flat()
  const own = [...m.keys()].filter((name) => !/^rewardops_(process|nodejs)_/.test(name))
  expect(own.toSorted()).toEqual(described.map(({ name }) => name).toSorted())
})
