import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { FULL } from '../../testkit/service/full-run.ts'
import {
  padding,
  rollouts,
  type Sample,
  type Submit,
  sample,
} from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { createLogger } from '../log.ts'
import { SERVER_POOLS, WORKER_POOL } from '../store/connection-budget.ts'
import { Database } from '../store/database.ts'
import { createTestDatabase, type TestDatabase } from '../store/postgres/test-database.ts'

const SERVERS = FULL ? 2 : 1
const WORKERS = FULL ? 12 : 4
const ROUNDS = 2

let database: TestDatabase
const services: Service[] = []
/** The server that gets most requests. Some requests go to the other servers, as behind a load balancer. */
let service: Service
let rm: SimulatedServers
let watcher: Database

beforeAll(async () => {
  database = await createTestDatabase()
  const env = { DATABASE_URL: database.url, REWARDOPS_WORKERS: String(WORKERS / SERVERS) }
  rm = await startSimulatedServers(['--latency', '5'])
  while (services.length < SERVERS) services.push(await Service.start({ env }))
  service = services[0] as Service
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url })
  const options = { max: 1, name: 'watcher', staysOpen: true }
  watcher = new Database(database.url, createLogger('silent', 'test'), options)
  await watcher.adhoc('select 1')
}, 120_000)
afterAll(async () => {
  await watcher?.close()
  await Promise.all(services.map((one) => one.stop()))
  await Promise.all([...services.map((one) => one.destroy()), rm.stop()])
  await database.drop()
})

async function mostWhile(work: () => Promise<unknown>): Promise<Map<string, number>> {
  const most = new Map<string, number>()
  let isOver = false
  const watching = (async () => {
    while (!isOver) {
      const rows = await watcher.rows<{ name: string; n: number }>(
        'connections',
        `select application_name as name, count(*)::int as n from pg_stat_activity
         where datname = current_database() and application_name like 'rewardops %' group by 1`,
      )
      for (const { name, n } of rows) most.set(name, Math.max(n, most.get(name) ?? 0))
    }
  })()
  try {
    await work()
  } finally {
    isOver = true
    await watching
  }
  return most
}

const submit = (run: string, samples: Sample[], fields: Partial<Submit> = {}) =>
  service.api.batches.submit.mutate({ run, step: 1, samples, ...fields })

async function batch(run: string, large: boolean, fields: Partial<Submit> = {}): Promise<string> {
  const samples = rollouts(256, 8, run)
  if (large) for (const one of samples) one.prompt = padding(24_000)
  const { batchId } = await submit(run, samples, fields)
  const reader = services.at(-1) as Service
  const followed = followBatch(reader, batchId)
  await followed.done
  await expectExactlyOnce(reader, followed, 256, 32)
  return batchId
}

it('connections stay within the budget, and every wait for a connection ends', async () => {
  const model = { reward: { model: 'simulated-rm' } }
  const { batchId: open } = await submit('appended', [], { open: true })
  let appended = 0
  const most = await mostWhile(async () => {
    await Promise.all([
      ...[0, 1, 2].map(async (n) => {
        for (let round = 0; round < ROUNDS; round++) {
          const batchId = await batch(`model-${n}-${round}`, false, model)
          await service.api.batches.rescore.mutate({ batchId, reward: {} }).catch(busyIsFine)
        }
      }),
      ...[0, 1].map(async (n) => {
        for (let round = 0; round < ROUNDS; round++) await batch(`large-${n}-${round}`, true)
      }),
      (async () => {
        for (let round = 0; round < ROUNDS; round++) {
          await Promise.all(
            Array.from({ length: 8 }, (_, n) => batch(`rule-${n}`, false, { step: round })),
          )
        }
      })(),
      (async () => {
        for (let round = 0; round < 2 * ROUNDS; round++) {
          const samples = rollouts(64, 8, `append-${round}`)
          await service.api.batches.append.mutate({ batchId: open, startIndex: appended, samples })
          appended += samples.length
        }
      })(),
      ...Array.from({ length: 8 }, async (_, n) => {
        for (let round = 0; round < 2 * ROUNDS; round++) {
          await (services[n % SERVERS] as Service).api.samples.score.mutate({
            run: `single-${n % 4}`,
            step: 1,
            sample: sample(),
          })
        }
      }),
      ...Array.from({ length: 4 }, async () => {
        for (let round = 0; round < 2 * ROUNDS; round++) {
          await Promise.all([
            service.api.overview.get.query(),
            service.api.batches.list.query({}),
            service.api.samples.list.query({ limit: 50 }),
            service.raw('/metrics'),
          ])
          const exported = await service.raw('/api/export/samples?run=appended')
          expect([200, 429]).toContain(exported.status)
          expect((await service.raw('/healthz')).status).toBe(200)
        }
      }),
      service.api.retention.start.mutate(),
    ])
  })
  const budget = Object.fromEntries([
    ...Object.values(SERVER_POOLS).map((pool) => [pool.name, SERVERS * pool.max]),
    [WORKER_POOL.name, WORKERS * WORKER_POOL.max],
    // One connection per process.
    ['rewardops listener', WORKERS + SERVERS],
  ])
  const total = [...most.values()].reduce((sum, n) => sum + n, 0)
  console.info(`at most ${total} connections of ${SERVERS} servers and ${WORKERS} workers`)
  for (const [name, n] of most)
    expect({ name, n }).toEqual({ name, n: Math.min(n, budget[name] ?? 0) })
  expect([...most.keys()].sort()).toEqual(Object.keys(budget).sort())
  for (const one of services) expect(one.log.problems()).toEqual([])
}, 300_000)

function busyIsFine(error: { reason?: string; message: string }): void {
  if (!/busy|copied already/.test(`${error.reason} ${error.message}`)) throw error
}
