import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { request } from 'undici'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freePort } from '../../testkit/processes/port.ts'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { expectExactlyOnce } from '../../testkit/service/follow-batch.ts'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import {
  hashScore,
  rollouts,
  type Sample,
  type Submit,
  sample,
} from '../../testkit/service/rollouts.ts'
import { runToEnd, Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { GroupResult, NextResult } from '../contract/trainer.ts'
import { inspectProcess } from '../store/postgres/processes.ts'
import { createTestDatabase, type TestDatabase } from '../store/postgres/test-database.ts'

const MAX_IN_FLIGHT = 8

let database: TestDatabase
let first: Service
let second: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[database, rm] = await Promise.all([
    createTestDatabase(),
    startSimulatedServers(['--latency', '20']),
  ])
  const env = {
    ...{ DATABASE_URL: database.url, REWARDOPS_WORKERS: '1', REWARDOPS_ALLOW_LAUNCH: '1' },
  }
  ;[first, second] = await Promise.all([Service.start({ env }), Service.start({ env })])
  await first.api.servers.register.mutate({ name: 'rm', url: rm.url, maxInFlight: MAX_IN_FLIGHT })
})

afterAll(async () => {
  const ends = await Promise.all([first?.stop(), second?.stop()])
  await Promise.all([first?.destroy(), second?.destroy(), rm?.stop()])
  await database?.drop()
  expect(ends.map((end) => end?.code)).toEqual([0, 0])
})

const submit = async (service: Service, samples: Sample[], fields: Partial<Submit> = {}) =>
  (
    await service.api.batches.submit.mutate({
      run: 'two-servers',
      step: 1,
      samples,
      reward: { model: 'simulated-rm' },
      ...fields,
    })
  ).batchId

async function followOverBoth(batchId: string): Promise<GroupResult[]> {
  const groups: GroupResult[] = []
  let cursor: string | null = null
  for (let turn = 0, done = false; !done; turn++) {
    const service = turn % 2 === 0 ? first : second
    const input = { batchId, after: cursor, samples: 16, waitMs: 5_000 }
    const page: NextResult = await service.api.batches.next.query(input)
    groups.push(...page.groups)
    ;({ cursor, done } = page)
  }
  return groups
}

it('a chain of cursors over both servers loses and duplicates no group', async () => {
  const samples = rollouts(400, 8, 'chain')
  const batchId = await submit(first, samples)
  const groups = await followOverBoth(batchId)
  const followed = { batchId, groups, done: Promise.resolve(), repeated: 0, stop: () => {} }
  const results = await expectExactlyOnce(second, followed, 400, 50)
  expect(results.map((r) => r.score)).toEqual(samples.map(hashScore))
})

it('a limit applies across the batches and router addresses of both servers', async () => {
  await rm.control({ resetStats: true })
  const batch = submit(first, rollouts(200, 8, 'limit'))
  const call = (service: Service, n: number) =>
    service.raw('/classify', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'simulated-rm', input: `call ${n}` }),
    })
  const calls = await Promise.all(
    Array.from({ length: 400 }, (_, n) => call(n % 2 === 0 ? first : second, n)),
  )
  expect(new Set(calls.map(({ status }) => status))).toEqual(new Set([200]))
  await followOverBoth(await batch)
  const { maxInFlight } = await rm.counters()
  expect(maxInFlight).toBeLessThanOrEqual(MAX_IN_FLIGHT)
  expect(maxInFlight).toBeGreaterThan(MAX_IN_FLIGHT / 2)
})

it('a server answers a single score, whichever worker scored it', async () => {
  const ask = (service: Service, n: number) =>
    service.api.samples.score.mutate({
      run: 'two-servers',
      step: 2,
      reward: { model: 'simulated-rm' },
      sample: sample({ response: `single ${n}` }),
    })
  const results = await Promise.all(
    Array.from({ length: 32 }, (_, n) => ask(n % 2 === 0 ? first : second, n)),
  )
  expect(results.map((r) => r.score)).toEqual(
    results.map((_, n) => hashScore(sample({ response: `single ${n}` }))),
  )
  expect(new Set(results.map((r) => r.batchId)).size).toBe(1)
})

it('samples of a protocol without steps share a step, whichever server receives them', async () => {
  for (const [n, service] of [first, second, first, second].entries()) {
    const answer = await service.raw('/compat/slime/two-servers-slime?model=simulated-rm', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Q', response: `slime ${n}`, label: '' }),
    })
    expect(answer.status, answer.text).toBe(200)
  }
  const { items } = await first.api.batches.list.query({ run: 'two-servers-slime' })
  expect(items).toMatchObject([{ step: 1, samples: 4 }])
})

it('idempotency keys apply across both servers', async () => {
  const samples = rollouts(16, 8, 'key')
  const ids = await Promise.all(
    [first, second, first, second].map((service) =>
      submit(service, samples, { idempotencyKey: 'once' }),
    ),
  )
  expect(new Set(ids).size).toBe(1)
})

itInFullRun('background work continues on the other server when one is killed', async () => {
  await rm.control({ latency: 600_000 })
  const batchId = await submit(first, rollouts(16, 8, 'deadline'), { deadlineMs: 8_000 })
  await waitFor('calls that hang', async () => (await rm.counters()).inFlight > 0)
  const [holder] = await second.sql<{ pid: number }>(
    "select pid from background_turn t join process p on p.id = t.process_id where kind = 'sweeps'",
  )
  const killed = (await first.pids()).server === holder!.pid ? first : second
  const other = killed === first ? second : first
  await killed.kill9('server')
  const ended = await waitFor('the deadline', async () => {
    const page = await other.api.batches.next.query({ batchId, samples: 16 })
    return page.done && page.groups
  })
  expect(ended.flatMap((g) => g.samples.map((s) => s.reason))).toEqual(
    Array.from({ length: 16 }, () => 'deadline'),
  )
  await rm.control({ latency: 20 })
  await killed.restart()
})

it('a sign-out at one server ends the streams and long polls of the session at the other', async () => {
  const { key } = await first.api.keys.create.mutate({ name: 'wall', role: 'viewer' })
  const answer = await first.post('session.signIn', JSON.stringify({ key }))
  const headers = { cookie: String(answer.headers['set-cookie']).split(';')[0] as string }
  await waitFor('the session at the other server', async () => {
    const { name } = await second.apiWith(headers).session.get.query()
    return name === 'wall'
  })
  const batchId = await submit(first, [sample()], { open: true })
  const input = encodeURIComponent(JSON.stringify({ batchId, waitMs: 60_000 }))
  const wait = second.raw(`/api/trpc/batches.wait?input=${input}`, { headers })
  const stream = await request(`${second.url}/api/trpc/live.events`, { headers })
  const read = stream.body.text()
  await first.post('session.signOut', '', headers)
  expectRefusal(await wait, {
    ...{ status: 401, reason: 'unauthorized', message: 'The session was ended.' },
  })
  // Without the sign-out the stream would continue for half an hour.
  await read
  await first.api.batches.cancel.mutate({ batchId })
})

const pidFile = ({ dataDir }: Service, name: string) => join(dataDir, 'servers', `${name}.pid`)

/** Launches a process whose URL never answers. Returns its id. */
async function launch(service: Service, name: string): Promise<number> {
  const port = await freePort()
  const command = [process.execPath, '-e', 'setInterval(() => {}, 1_000)']
  await service.api.servers.launch.mutate({ name, engine: 'vllm', port, command })
  const file = pidFile(service, name)
  await waitFor('the process', () => existsSync(file))
  return (JSON.parse(readFileSync(file, 'utf8')) as { pid: number }).pid
}

const runs = (pid: number) => inspectProcess(pid)?.running === true

it('a launched reward-model server ends when it is removed at another server', async () => {
  const pid = await launch(first, 'removed')
  await second.api.servers.remove.mutate({ name: 'removed' })
  await waitFor('the end of the process', () => !runs(pid), 10_000)
})

it('a launched reward-model server is not registered or launched again at another server', async () => {
  const pid = await launch(first, 'launched')
  const { servers } = second.api
  const port = await freePort()
  const command = [process.execPath, '-e', '']
  for (const change of [
    () => servers.register.mutate({ name: 'launched', url: rm.url }),
    () => servers.update.mutate({ name: 'launched', url: rm.url }),
    () => servers.launch.mutate({ name: 'launched', engine: 'vllm', port, command }),
  ]) {
    await expect(change()).rejects.toMatchObject({ data: { reason: 'server_busy' } })
  }
  expect(await servers.update.mutate({ name: 'launched', weight: 2 })).toMatchObject({ weight: 2 })
  expect(runs(pid)).toBe(true)
  await servers.remove.mutate({ name: 'launched' })
  await waitFor('the end of the process', () => !runs(pid), 10_000)
})

itInFullRun('a server that starts launches again only what it launched itself', async () => {
  await launch(second, 'moved')
  await second.api.servers.remove.mutate({ name: 'moved' })
  const ofFirst = [await launch(first, 'a-of-first'), await launch(first, 'moved')]
  const ofSecond = await launch(second, 'b-of-second')
  await second.stop()
  expect([...ofFirst, ofSecond].map(runs)).toEqual([true, true, false])
  await second.restart()
  // Servers are launched in the order of their registration.
  await waitFor('the last launch', () => existsSync(pidFile(second, 'b-of-second')))
  for (const name of ['a-of-first', 'moved']) {
    expect(existsSync(pidFile(second, name)), name).toBe(false)
  }
  expect(ofFirst.map(runs)).toEqual([true, true])
  for (const name of ['a-of-first', 'moved', 'b-of-second']) {
    await second.api.servers.remove.mutate({ name })
  }
})

it('a server without the secrets key does not start, and creates no key', async () => {
  const { code, stderr } = await runToEnd({
    ...{ DATABASE_URL: database.url, REWARDOPS_PAGES: '0', REWARDOPS_WORKERS: '0' },
  })
  expect(code).toBe(1)
  expect(stderr).toMatch(/secrets\.key does not exist.*encrypted with the key [0-9a-f]{8}/)
})
