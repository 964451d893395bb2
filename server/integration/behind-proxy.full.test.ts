import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { CallError, createApi, rawRequest } from '../../testkit/processes/trpc-call.ts'
import { hashScore, rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { NextResult } from '../contract/trainer.ts'
import { createTestDatabase, type TestDatabase } from '../store/postgres/test-database.ts'

const SECONDS = Number(process.env.REWARDOPS_TEST_SECONDS ?? 60)
/** Roots of older source trees that are ready to run, oldest first. Each version is upgraded to the next. */
const OLDER = process.env.REWARDOPS_UPGRADE_FROM?.split(',') ?? []
const KEY = 'pT4wZ81mQx7RkV0s9LcB'
const RPM = 600
const BURST = RPM / 30
const MODELS = { eight: { maxInFlight: 8 }, one: { maxInFlight: 1 }, minute: { rpm: RPM } }
type Model = keyof typeof MODELS

const hasNginx = spawnSync('nginx', ['-v']).error === undefined
if (!hasNginx) console.warn('behind-proxy.full.test.ts: nginx is not installed; skipped')

let database: TestDatabase
let folder: string
let nginx: ChildProcess
let url: string
const api = createApi(() => url, { authorization: `Bearer ${KEY}` })
let services: Service[] = []
let ports: number[] = []
const rms = {} as Record<Model, SimulatedServers>

beforeAll(async () => {
  if (!hasNginx) return
  // The oldest version refuses a database with the schema of this version, so it starts with an empty database.
  database = await createTestDatabase(OLDER.length > 0 ? { template: null } : {})
  folder = mkdtempSync(join(tmpdir(), 'rewardops-nginx-'))
  ports = await freePorts(2 * OLDER.length + 3)
  for (const name of Object.keys(MODELS) as Model[]) {
    rms[name] = await startSimulatedServers(['--latency', '30', '--model', name])
  }
  for (const port of ports.slice(0, 2)) services.push(await start(port, OLDER[0]))
  const proxy = ports.at(-1) as number
  url = `http://127.0.0.1:${proxy}`
  nginx = startNginx(proxy, ports.slice(0, -1))
  await waitFor('the proxy', async () => (await rawRequest(`${url}/readyz`, {})).status === 200)
  for (const [name, limits] of Object.entries(MODELS)) {
    await api.servers.register.mutate({ name, url: rms[name as Model].url, ...limits })
  }
}, 180_000)

afterAll(async () => {
  nginx?.kill('SIGKILL')
  await Promise.all(services.map((service) => service.stop().catch(() => {})))
  await Promise.all([
    ...services.map((service) => service.destroy()),
    ...Object.values(rms).map((rm) => rm.stop()),
  ])
  await database?.drop()
  if (folder) rmSync(folder, { recursive: true, force: true })
}, 120_000)

function start(port: number, tree?: string): Promise<Service> {
  const env = {
    DATABASE_URL: database.url,
    PORT: String(port),
    REWARDOPS_API_KEYS: KEY,
    REWARDOPS_SAMPLES_PER_CALL: '1',
  }
  const headers = { authorization: `Bearer ${KEY}` }
  return Service.start({ env, headers, ...(tree && { tree }) })
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(
    servers.map((server) => new Promise((listening) => server.once('listening', listening))),
  )
  const ports = servers.map((server) => (server.address() as { port: number }).port)
  await Promise.all(servers.map((server) => new Promise((closed) => server.close(closed))))
  return ports
}

function startNginx(port: number, upstream: number[]): ChildProcess {
  const file = join(folder, 'nginx.conf')
  writeFileSync(
    file,
    `${process.getuid?.() === 0 ? 'user root;' : ''} daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log; worker_processes 1;
events { worker_connections 512; }
http {
  access_log off; client_max_body_size 64m;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  upstream rewardops {
    ${upstream.map((each) => `server 127.0.0.1:${each} max_fails=1 fail_timeout=1s;`).join(' ')}
  }
  server {
    listen 127.0.0.1:${port};
    location / {
      proxy_pass http://rewardops; proxy_http_version 1.1; proxy_set_header Host $host;
      proxy_buffering off; proxy_read_timeout 120s; proxy_next_upstream error timeout http_503;
    }
  }
}`,
  )
  return spawn('nginx', ['-c', file, '-e', join(folder, 'error.log')], { stdio: 'ignore' })
}

let failedCalls: string[] = []

async function insist<T>(work: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await work()
    } catch (error) {
      if (error instanceof CallError && error.status < 500) throw error
      failedCalls.push((error as Error).message)
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}

async function train(model: Model, until: number): Promise<number> {
  let got = 0
  for (let step = 0; performance.now() < until; step++) {
    const size = model === 'one' ? 64 : 256
    const samples = rollouts(size, 8, `${model} ${step}`)
    const { batchId } = await insist(() =>
      api.batches.submit.mutate({
        run: model,
        step,
        samples,
        reward: { model },
        idempotencyKey: `${model} ${step}`,
      }),
    )
    const scores = new Map<number, number | null>()
    let cursor: string | null = null
    for (let done = false; !done; ) {
      const input = { batchId, after: cursor, samples: 32, waitMs: 5_000 }
      const page: NextResult = await insist(() => api.batches.next.query(input))
      for (const { samples: members } of page.groups) {
        for (const { index, score } of members) {
          expect(scores.has(index)).toBe(false)
          scores.set(index, score)
        }
      }
      ;({ cursor, done } = page)
    }
    expect(samples.map((_, i) => scores.get(i))).toEqual(samples.map(hashScore))
    got += size
  }
  return got
}

describe.runIf(hasNginx)('two servers behind nginx', () => {
  it.runIf(OLDER.length > 0)(
    'are upgraded one after the other without a failed call',
    async () => {
      const until = performance.now() + SECONDS * 1_000
      failedCalls = []
      const trained = Promise.all(
        (Object.keys(MODELS) as Model[]).map((name) => train(name, until)),
      )
      const pauseMs = (SECONDS * 500) / OLDER.length / 2
      for (let step = 1; step <= OLDER.length; step++) {
        const older = services
        services = []
        for (const [i, service] of older.entries()) {
          await new Promise((resolve) => setTimeout(resolve, pauseMs))
          services.push(await start(ports[2 * step + i] as number, OLDER[step]))
          await service.stop()
          await service.destroy()
        }
      }
      const got = await trained
      console.info(`${OLDER.length} upgrades: ${got.join(' + ')} samples in ${SECONDS} s`)
      expect(failedCalls).toEqual([])
    },
    (SECONDS + 180) * 1_000,
  )

  it(
    'lose and duplicate nothing and keep every limit while they are killed one after the other',
    async () => {
      for (const rm of Object.values(rms)) await rm.control({ resetStats: true })
      const until = performance.now() + SECONDS * 1_000
      const requests: { sinceMs: number; byMs: number; n: number }[] = []
      const watching = (async () => {
        while (performance.now() < until) {
          const sinceMs = performance.now()
          const n = (await rms.minute.counters()).requests
          requests.push({ sinceMs, byMs: performance.now(), n })
          await new Promise((resolve) => setTimeout(resolve, 250))
        }
      })()
      const trained = Promise.all(
        (Object.keys(MODELS) as Model[]).map((name) => train(name, until)),
      )
      let kills = 0
      while (performance.now() < until - 10_000) {
        const service = services[kills % 2] as Service
        await service.kill9('server')
        kills++
        await service.restart()
      }
      await watching
      const got = await trained
      console.info(`${kills} kills, ${got.join(' + ')} samples in ${SECONDS} s`)
      expect(kills).toBeGreaterThan(2)
      expect((await rms.eight.counters()).maxInFlight).toBeLessThanOrEqual(8)
      expect((await rms.one.counters()).maxInFlight).toBe(1)
      for (const [i, from] of requests.entries()) {
        for (const to of requests.slice(i + 1)) {
          const allowed = (RPM * (to.byMs - from.sinceMs)) / 60_000 + BURST
          expect(to.n - from.n).toBeLessThanOrEqual(allowed)
        }
      }
      const [orphans] = await services[0]!.sql<{ n: number }>(
        'select count(*)::int as n from sample where status < 2',
      )
      expect(orphans?.n).toBe(0)
    },
    (SECONDS + 180) * 1_000,
  )
})
