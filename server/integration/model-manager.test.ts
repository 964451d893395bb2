import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { environment } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { ServerOptionsInput } from '../../testkit/simulated-rm/options.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import { requeueOrphans } from '../background/worker-supervisor.ts'
import { CALLS_GRACE_MS } from '../cluster/lease-holder.ts'
import { ProcessRow } from '../cluster/process-row.ts'
import { LaunchServerInput, RegisterServerInput } from '../contract/servers.ts'
import { createLogger } from '../log.ts'
import { writeRecord } from '../model-servers/launch-record.ts'
import { type LaunchOptions, ServerLauncher } from '../model-servers/launcher.ts'
import { RewardModelManager } from '../model-servers/reward-model-manager.ts'
import { MODEL_TIMINGS, type ModelTimings } from '../model-servers/timings.ts'
import { PROCESS_HOST } from '../process-host.ts'
import { SERVER_POOLS } from '../store/connection-budget.ts'
import { Database } from '../store/database.ts'
import { JobQueue } from '../store/job-queue.ts'
import { inspectProcess, markOf } from '../store/postgres/processes.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { ServerLocks } from '../store/server-locks.ts'
import { ServerRegistry } from '../store/server-registry.ts'
import { renewLease } from '../store/sql/leases.ts'
import { serverEvents } from '../store/sql/server-detail.ts'
import { activeServers, type ServerRow } from '../store/sql/servers.ts'

const SHORT: Partial<ModelTimings> = {
  lookEveryMs: 20,
  probeEveryMs: 60,
  newlyGoneEveryMs: 40,
  probeTimeoutMs: 2_000,
  deadEveryMs: 60,
  calibrateEveryMs: 100,
  retestEveryMs: 60,
  idleAfterMs: 50,
  drainWithinMs: 400,
  drainLookMs: 20,
  asleepWithinMs: 5_000,
  asleepLookMs: 20,
  awakeLookMs: 20,
  sweepEveryMs: 40,
  keepAwakeMs: 300,
  trySleepAgainMs: 300,
  tryWakeAgainMs: 100,
}

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database
let queue: JobQueue
let dataDir: string
let managers: RewardModelManager[] = []
let servers: SimulatedServer[] = []
let databases: Database[] = []

beforeAll(async () => {
  db = new Database(database.url, log, { max: 10, name: 'test', keyed: true })
  queue = new JobQueue(db, log, { supervise: true })
  await queue.start()
  dataDir = mkdtempSync(join(tmpdir(), 'rewardops-models-'))
})
afterAll(async () => {
  await queue?.stop()
  await db?.close()
  rmSync(dataDir, { recursive: true, force: true })
})
beforeEach(() => db.adhoc('truncate server, server_event, server_minute, pool, lease, batch'))
afterEach(async () => {
  for (const manager of managers) {
    await manager.stop()
    await manager.close(0)
  }
  managers = []
  await Promise.all(databases.map((own) => own.close()))
  databases = []
  await Promise.all(servers.map((server) => server.close()))
  servers = []
})

function manager(
  timings: Partial<ModelTimings> = {},
  watch = true,
  launch: Partial<LaunchOptions> = {},
  ownLog = log,
): RewardModelManager {
  const own = new Database(database.url, log, { max: 4, name: 'manager', keyed: true })
  const control = new Database(database.url, log, SERVER_POOLS.control)
  databases.push(own, control)
  const made = new RewardModelManager({
    db: own,
    control,
    queue,
    log: ownLog,
    launch: {
      ...{ dataDir, env: environment({}), servers: [], allowCalls: false, processId: 0 },
      ...launch,
    },
    timings: { ...SHORT, ...timings },
  })
  if (watch) made.start()
  managers.push(made)
  return made
}

async function simulated(options: ServerOptionsInput = {}): Promise<SimulatedServer> {
  const server = await SimulatedServer.start(options)
  servers.push(server)
  return server
}

const register = (m: RewardModelManager, name: string, server: SimulatedServer, fields = {}) =>
  m.register(RegisterServerInput.parse({ name, url: server.url, ...fields }))

async function row(name: string): Promise<ServerRow> {
  const found = (await activeServers(db)).find((one) => one.name === name)
  if (!found) throw new Error(`no server ${name}`)
  return found
}

const inState = (name: string, state: ServerRow['state']) =>
  waitFor(`${name} to be ${state}`, async () => {
    const now = await row(name)
    if (now.state !== state) {
      const { lastProbeAt, stateCause } = now
      throw new Error(`it is ${now.state} (${stateCause}), last probed ${lastProbeAt}`)
    }
    return now
  })

const lifecycle = (server: SimulatedServer) => server.stats().lifecycle.map((call) => call.route)

async function history(name: string) {
  const { id } = await row(name)
  return (await serverEvents(db, id, 100)).reverse()
}

describe('a server that disappears', () => {
  it('is unreachable, then dead, then self-tested before it is ready; every change is recorded', async () => {
    const rm = await simulated()
    const m = manager({ deadAfterMs: 300 })
    expect(await register(m, 'rm', rm)).toMatchObject({ state: 'ready', canSleep: true })
    await rm.die()
    const gone = await inState('rm', 'unreachable')
    expect(gone.stateCause).toMatch(/ECONNREFUSED|cannot be reached/)
    await inState('rm', 'dead')
    await rm.start()
    await inState('rm', 'ready')
    const events = await history('rm')
    expect(events.map((e) => [e.from, e.to])).toEqual([
      [null, 'ready'],
      ['ready', 'unreachable'],
      ['unreachable', 'dead'],
      ['dead', 'probing'],
      ['probing', 'ready'],
    ])
    expect(events[1]!.evidence).toMatchObject({ reason: 'server_unreachable', failures: 2 })
    expect(events[4]!.evidence).toMatchObject({ verdict: 'raw', calibration: expect.any(Number) })
    for (const event of events) expect(event.cause).toMatch(/\w+ \w+/)
  })

  it('restarted with another version is self-tested before it gets traffic', async () => {
    const rm = await simulated({ version: '0.13.0' })
    const m = manager()
    await register(m, 'rm', rm)
    await rm.die()
    const other = await simulated({ version: '0.14.0', port: rm.port })
    await waitFor('the new version', async () => (await row('rm')).version === '0.14.0')
    await inState('rm', 'ready')
    const gate = (await history('rm')).find((e) => e.to === 'probing')
    expect(gate).toMatchObject({
      cause: expect.stringMatching(/responds again|0\.14\.0 instead of 0\.13\.0/),
      evidence: { version: '0.14.0' },
    })
    expect(other.stats().textsTotal).toBeGreaterThan(2)
  })
})

describe('calibration', () => {
  it('finds new weights in an idle server, and accepts them when it is registered again', async () => {
    const rm = await simulated()
    const m = manager()
    await register(m, 'rm', rm)
    rm.control({ weights: 7 })
    const drifted = await inState('rm', 'quarantined')
    expect(drifted.selfTest).toMatchObject({ verdict: 'differs' })
    expect(drifted.stateCause).toMatch(/changed from -?[\d.]+ to -?[\d.]+/)
    expect(await m.probe({ name: 'rm' })).toMatchObject({ state: 'quarantined' })
    expect(await register(m, 'rm', rm)).toMatchObject({ state: 'ready' })
    expect(await m.probe({ name: 'rm' })).toMatchObject({ state: 'ready' })
  })

  it('takes a slot of the server’s limit', async () => {
    const rm = await simulated()
    const m = manager({ selfTestTimeoutMs: 600_000 })
    const { id } = await register(m, 'rm', rm, { maxInFlight: 1 })
    const slots = async () => {
      const share = { holderId: 9, demand: 1, inFlight: 0, limit: 1, ttlMs: 60_000, graceMs: 0 }
      return (await renewLease(db, { resource: `server:${id}`, ...share })).slots
    }
    rm.control({ latency: 600_000 })
    await waitFor('a calibration in flight', () => rm.stats().inFlight > 0)
    expect(await slots()).toBe(0)
    rm.control({ latency: 0 })
    expect(await m.probe({ name: 'rm' })).toMatchObject({ state: 'ready' })
    expect(await waitFor('the slot', slots)).toBe(1)
  })

  it('holds the slot of a silent process no longer than samples do', async () => {
    const rm = await simulated()
    const m = manager()
    await register(m, 'rm', rm, { maxInFlight: 1 })
    rm.control({ latency: 600_000 })
    await waitFor('a calibration in flight', () => rm.stats().inFlight > 0)
    const [share] = await db.adhoc<{ leftMs: number }>(
      `select (1000 * extract(epoch from expires_at - clock_timestamp()) + grace_ms)::float8 as "leftMs" from lease`,
    )
    expect(share?.leftMs).toBeLessThanOrEqual(CALLS_GRACE_MS)
    rm.control({ latency: 0 })
  })

  it('gives the slot back if its process is killed', async () => {
    const rm = await simulated()
    const process = await ProcessRow.register(db, 'server', false)
    const m = manager({ selfTestTimeoutMs: 600_000 }, true, { processId: process.id })
    await register(m, 'rm', rm, { maxInFlight: 1 })
    rm.control({ latency: 600_000 })
    await waitFor('a calibration in flight', () => rm.stats().inFlight > 0)
    const leases = () => db.adhoc('select 1 from lease where slots > 0')
    expect(await leases()).toHaveLength(1)
    await db.adhoc('update process set pid = $2 where id = $1', [process.id, spawnSync('true').pid])
    await requeueOrphans(db, queue, false)
    expect(await leases()).toEqual([])
    rm.control({ latency: 0 })
  })

  it('accepts new weights of a server that is registered again while it is unreachable', async () => {
    const rm = await simulated()
    const m = manager({}, false)
    const { engine, model } = await register(m, 'rm', rm)
    await rm.die()
    const kept = { engine, model, ifUnreachable: 'keep' }
    expect(await register(m, 'rm', rm, kept)).toMatchObject({ state: 'unreachable' })
    await simulated({ weights: 7, port: rm.port })
    const back = await m.probe({ name: 'rm' })
    expect(back).toMatchObject({ state: 'ready', selfTest: { verdict: 'raw' } })
  })

  it('quarantines the later of two servers; of three, the one that differs', async () => {
    const [a, b, c] = await Promise.all([simulated({ weights: 7 }), simulated(), simulated()])
    const m = manager({}, false)
    expect(await register(m, 'a', a!)).toMatchObject({ state: 'ready' })
    const second = await register(m, 'b', b!)
    expect(second).toMatchObject({ state: 'quarantined', selfTest: { verdict: 'differs' } })
    expect(second.stateCause).toMatch(/\(a\)/)
    expect(await register(m, 'c', c!)).toMatchObject({ state: 'ready' })
    expect(await row('a')).toMatchObject({
      state: 'quarantined',
      selfTest: { verdict: 'differs' },
    })
    expect(await row('b')).toMatchObject({ state: 'ready', selfTest: { verdict: 'raw' } })
    await m.remove({ name: 'a' })
    await m.remove({ name: 'b' })
    expect(await register(m, 'a', a!)).toMatchObject({ state: 'quarantined' })
    expect(await row('c')).toMatchObject({ state: 'ready' })
  })

  it('goes by the clock of the database, even if the clock of this machine is behind', async () => {
    const [a, b] = await Promise.all([simulated(), simulated({ weights: 7 })])
    const m = manager({}, false)
    await register(m, 'a', a)
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 })
    const later = await register(m, 'b', b).finally(() => vi.useRealTimers())
    expect(later).toMatchObject({ state: 'quarantined', selfTest: { verdict: 'differs' } })
    expect(await row('a')).toMatchObject({ state: 'ready', selfTest: { verdict: 'raw' } })
  })

  it('leaves an overridden server in use if its pool disagrees with it', async () => {
    const [a, b, c] = await Promise.all([simulated({ weights: 7 }), simulated(), simulated()])
    const m = manager({}, false)
    await register(m, 'a', a, { selfTestOverride: true })
    await register(m, 'b', b)
    await register(m, 'c', c)
    expect(await row('a')).toMatchObject({ state: 'ready', selfTest: { verdict: 'differs' } })
    expect(await row('b')).toMatchObject({ state: 'ready', selfTest: { verdict: 'raw' } })
  })

  it('can be overridden, and the override can be withdrawn', async () => {
    const rm = await simulated({ activation: 'ignored' })
    const m = manager({}, false)
    const kept = await register(m, 'rm', rm)
    expect(kept).toMatchObject({ state: 'quarantined', selfTest: { verdict: 'squashed' } })
    const used = await m.update({ name: 'rm' }, { selfTestOverride: true })
    expect(used).toMatchObject({ state: 'ready', selfTest: { verdict: 'squashed' } })
    const again = await m.update({ name: 'rm' }, { selfTestOverride: false })
    expect(again).toMatchObject({ state: 'quarantined' })
    const overridden = await register(m, 'rm', rm, { selfTestOverride: true })
    expect(overridden).toMatchObject({
      state: 'ready',
      stateCause: expect.stringMatching(/squashed/),
    })
  })
})

describe('sleep', () => {
  it('waits until no process has a lease; after the time limit the server stays awake', async () => {
    const rm = await simulated()
    const m = manager({ drainWithinMs: 300 })
    const { id } = await register(m, 'rm', rm)
    const lease = async (ms: number) =>
      db.adhoc(
        `insert into lease (resource, worker_id, slots, demand, expires_at)
         values ($1, 9, 2, 2, clock_timestamp() + $2 * interval '1 millisecond')
         on conflict (resource, worker_id) do update set expires_at = excluded.expires_at`,
        [`server:${id}`, ms],
      )
    await lease(60_000)
    await expect(m.sleep({ name: 'rm' }, 1)).rejects.toMatchObject({
      reason: 'server_busy',
      message: expect.stringMatching(/2 requests in flight/),
    })
    expect(await row('rm')).toMatchObject({
      state: 'ready',
      stateCause: expect.stringMatching(/stays awake/),
    })
    expect(lifecycle(rm)).toEqual([])
    await lease(150)
    expect(await m.sleep({ name: 'rm' }, 1)).toMatchObject({ state: 'sleeping', awakeUntil: null })
    expect(rm.stats()).toMatchObject({ state: 'asleep', lifecycle: [{ inFlight: 0 }] })
    const last = (await history('rm')).at(-1)
    expect(last).toMatchObject({ to: 'sleeping', evidence: { level: 1, reportedAsleep: true } })
  })

  it('waits for requests of other clients too', async () => {
    const rm = await simulated({ latency: 'constant:250' })
    const m = manager({ drainWithinMs: 10_000 }, false)
    await register(m, 'rm', rm)
    const strangers = fetch(`${rm.url}/classify`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: rm.model, input: 'theirs' }),
    })
    await waitFor('their call', () => rm.stats().textsInFlight > 0)
    await m.sleep({ name: 'rm' }, 1)
    expect((await strangers).status).toBe(200)
    expect(rm.stats().lifecycle).toMatchObject([{ inFlight: 0 }])
  })

  it('that is refused does not end a drain that a user requested', async () => {
    const rm = await simulated({ canSleep: false })
    const m = manager()
    await register(m, 'plain', rm, { model: rm.model })
    await m.drain({ name: 'plain' })
    await db.adhoc("update server set can_sleep = true where name = 'plain'")
    await expect(m.sleep({ name: 'plain' }, 1)).rejects.toMatchObject({
      reason: 'server_cannot_sleep',
    })
    expect(await row('plain')).toMatchObject({ state: 'draining', stateCause: 'drain requested' })
  })

  it('is refused if the server does not support it', async () => {
    const [tei, plain] = await Promise.all([
      simulated({ dialect: 'tei' }),
      simulated({ canSleep: false }),
    ])
    const m = manager({}, false)
    await register(m, 'tei', tei!)
    await register(m, 'plain', plain!, { model: plain!.model })
    for (const name of ['tei', 'plain']) {
      await expect(m.sleep({ name }, 1)).rejects.toMatchObject({ reason: 'server_cannot_sleep' })
    }
    await expect(m.sleep({ name: 'plain' }, 1)).rejects.toMatchObject({
      hint: expect.stringMatching(/enable-sleep-mode/),
    })
  })

  it('is remembered for SGLang, which does not report it: a sleeping server gets no requests', async () => {
    const rm = await simulated({ dialect: 'sglang' })
    const m = manager()
    await register(m, 'rm', rm)
    await m.sleep({ name: 'rm' }, 1)
    rm.control({ resetStats: true })
    await waitFor('some probes', () => (rm.stats().calls['GET /server_info']?.['200'] ?? 0) >= 3)
    expect(await row('rm')).toMatchObject({ state: 'sleeping' })
    expect(rm.stats()).toMatchObject({ textsTotal: 0, state: 'asleep' })
    expect(await register(m, 'rm', rm)).toMatchObject({ state: 'sleeping' })
    expect(await m.wake({ name: 'rm' }, 60_000)).toMatchObject({ state: 'ready' })
    expect(lifecycle(rm)).toEqual(['POST /resume_memory_occupation'])
  })

  it('is detected by a probe, and so is its end', async () => {
    const rm = await simulated()
    const m = manager({ selfTestTimeoutMs: 600_000 })
    await register(m, 'rm', rm)
    // A server that falls asleep during its calibration does not answer it. Probes do not wait for the calibration.
    rm.control({ latency: 600_000 })
    await waitFor('a calibration in flight', () => rm.stats().inFlight > 0)
    // The sleep clears the `awakeUntil` of an earlier wake.
    await db.adhoc(`update server set awake_until = clock_timestamp() + interval '1 minute'`)
    rm.control({ asleep: true })
    expect(await inState('rm', 'sleeping')).toMatchObject({ awakeUntil: null })
    rm.control({ asleep: false, latency: 0 })
    expect(await inState('rm', 'ready')).toMatchObject({ awakeUntil: null })
    expect(lifecycle(rm)).toEqual([])
  })

  it('is recorded only once no other process tests or changes the server', async () => {
    const rm = await simulated()
    const m = manager()
    await register(m, 'rm', rm)
    const control = new Database(database.url, log, SERVER_POOLS.control)
    databases.push(control)
    const locks = new ServerLocks(control)
    const { id } = await row('rm')
    await waitFor('the lock of the server', () => locks.take(id))
    rm.control({ asleep: true })
    const probes = () => rm.stats().calls['GET /is_sleeping']?.['200'] ?? 0
    const before = probes()
    await waitFor('two probes of the sleeping server', () => probes() > before + 2)
    expect(await row('rm')).toMatchObject({ state: 'ready' })
    await locks.release(id)
    await inState('rm', 'sleeping')
  })
})

describe('wake', () => {
  it('is one call for twenty callers in two processes', async () => {
    const rm = await simulated({ wakeMs: 150 })
    const [one, two] = [manager({}, false), manager({}, false)]
    await register(one, 'rm', rm)
    await one.sleep({ name: 'rm' }, 1)
    rm.control({ resetStats: true })
    const woken = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 ? one : two).wake({ name: 'rm' }, 60_000)),
    )
    expect(new Set(woken.map((w) => w.state))).toEqual(new Set(['ready']))
    expect(lifecycle(rm)).toEqual(['POST /wake_up'])
    const { awakeUntil } = await row('rm')
    expect(awakeUntil!.getTime() - Date.now()).toBeGreaterThan(50_000)
  })

  it('tests the scores, so that a server that has not reloaded its weights is not used', async () => {
    const rm = await simulated()
    const m = manager({}, false)
    await register(m, 'rm', rm)
    await m.sleep({ name: 'rm' }, 2)
    const woken = await m.wake({ name: 'rm' }, 60_000)
    const stats = rm.stats()
    // The engine decides whether to reload the weights; only correct scores make the server ready.
    const reloaded = (stats.calls['POST /collective_rpc']?.['200'] ?? 0) > 0
    expect(woken.state).toBe(reloaded ? 'ready' : 'quarantined')
  })

  it('that gets no answer marks the server as unreachable and reports the cause', async () => {
    const rm = await simulated()
    const m = manager({ awakeWithinMs: 500 }, false)
    await register(m, 'rm', rm)
    await m.sleep({ name: 'rm' }, 1)
    await rm.die()
    await expect(m.wake({ name: 'rm' }, 60_000)).rejects.toMatchObject({
      reason: 'server_unreachable',
      message: expect.stringMatching(/rm was not woken/),
    })
    expect(await row('rm')).toMatchObject({ state: 'unreachable' })
  })

  it('cancels a sleep whose call has not been sent', async () => {
    const rm = await simulated()
    const m = manager({ drainWithinMs: 20_000 }, false)
    const { id } = await register(m, 'rm', rm)
    await db.adhoc(
      `insert into lease (resource, worker_id, slots, demand, expires_at)
       values ($1, 9, 1, 1, clock_timestamp() + interval '1 minute')`,
      [`server:${id}`],
    )
    const sleeping = m.sleep({ name: 'rm' }, 1).catch((error: Error) => error)
    await inState('rm', 'draining')
    expect(await m.wake({ name: 'rm' }, 60_000)).toMatchObject({ state: 'ready' })
    expect(await sleeping).toMatchObject({ reason: 'server_busy' })
    expect(lifecycle(rm)).toEqual([])
  })
})

describe('the time awake of a woken server', () => {
  it('ends in sleep; a server that no caller woke stays awake', async () => {
    const [woken, left] = await Promise.all([simulated(), simulated()])
    const m = manager()
    await register(m, 'woken', woken!)
    await register(m, 'left', left!)
    await m.sleep({ name: 'woken' }, 1)
    await m.wake({ name: 'woken' }, 200)
    await inState('woken', 'ready')
    expect(await inState('woken', 'sleeping')).toMatchObject({ awakeUntil: null })
    expect(await row('left')).toMatchObject({ state: 'ready' })
    expect(lifecycle(left!)).toEqual([])
  })

  it('is longer if the server has requests', async () => {
    const [used, idle] = await Promise.all([simulated(), simulated()])
    const m = manager({ idleAfterMs: 60_000 })
    await register(m, 'used', used!)
    await register(m, 'idle', idle!)
    const probed = async () => {
      const before = (await row('idle')).lastProbeAt?.getTime()
      await waitFor('a probe', async () => (await row('idle')).lastProbeAt?.getTime() !== before)
    }
    await probed()
    await db.adhoc("update server set requests = requests + 1 where name = 'used'")
    // The manager reads the request counts before each probe. The first probe may have begun before the request, so the
    // test waits for two.
    await probed()
    await probed()
    for (const name of ['used', 'idle']) {
      await m.sleep({ name }, 1)
      await m.wake({ name }, 100)
    }
    await waitFor('the second sleep', () => lifecycle(idle!).length === 3)
    expect(await row('used')).toMatchObject({ state: 'ready', awakeUntil: expect.any(Date) })
    expect(lifecycle(used!)).toHaveLength(2)
  })

  it('interrupted by a crash is continued by the next process, at every point', async () => {
    const rm = await simulated()
    const before = manager({}, false)
    await register(before, 'rm', rm)
    const point = (state: string, cause: string, awakeMs: number | null) =>
      db.adhoc(
        `update server set state = $1, state_cause = $2, awake_until = clock_timestamp() + $3 * interval '1 millisecond'`,
        [state, cause, awakeMs],
      )
    await point('ready', 'woken', -1)
    manager()
    await inState('rm', 'sleeping')
    expect(rm.stats().state).toBe('asleep')
    // The wake was recorded, but the call was not sent.
    await point('waking', 'is being woken: wake requested', 60_000)
    await inState('rm', 'sleeping')
    // The server woke, but this was not recorded: it is tested and stays awake until `awakeUntil`.
    rm.control({ asleep: false })
    await point('waking', 'is being woken: wake requested', 60_000)
    expect((await inState('rm', 'ready')).awakeUntil).not.toBeNull()
    await point('draining', 'finishes its requests in flight before sleep', null)
    await inState('rm', 'ready')
    rm.control({ asleep: true })
    await point('draining', 'is being put to sleep', null)
    await inState('rm', 'sleeping')
    // A server drained by a user stays drained.
    rm.control({ asleep: false })
    await inState('rm', 'ready')
    await before.drain({ name: 'rm' })
    await waitFor('further probes', () => {
      return (rm.stats().calls['GET /v1/models']?.['200'] ?? 0) > 0
    })
    expect(await row('rm')).toMatchObject({ state: 'draining', stateCause: 'drain requested' })
  })
})

describe('a batch with sleepAfter', () => {
  const batch = async (model: string, sleepAfter: boolean) => {
    const [{ id }] = (await db.adhoc<{ id: number }>(
      `insert into batch (run_id, step, split, status, reward, reward_name, text_bucket)
       values (1, 1, 'train', 'running', $1, $2, current_date) returning id`,
      [JSON.stringify({ kind: 'model', model, ...(sleepAfter ? { sleepAfter } : {}) }), model],
    )) as [{ id: number }]
    return () =>
      db.adhoc(
        `update batch set status = 'completed', completed_at = clock_timestamp() where id = $1`,
        [id],
      )
  }

  it('wakes its pool, keeps it awake while any batch needs it, and puts it to sleep', async () => {
    const [a, b, other] = await Promise.all([
      simulated(),
      simulated(),
      simulated({ model: 'another' }),
    ])
    const m = manager()
    for (const [name, server] of Object.entries({ a: a!, b: b!, other: other! })) {
      await register(m, name, server)
      await m.sleep({ name }, 1)
    }
    const end = await batch('simulated-rm', true)
    await Promise.all([inState('a', 'ready'), inState('b', 'ready')])
    // Another batch of the model, without `sleepAfter`, needs the servers as well.
    const endOther = await batch('simulated-rm', false)
    await end()
    const until = (await row('a')).awakeUntil!.getTime()
    await waitFor('a longer time awake', async () => {
      return (await row('a')).awakeUntil!.getTime() > until + SHORT.keepAwakeMs!
    })
    expect(await row('a')).toMatchObject({ state: 'ready' })
    await endOther()
    await Promise.all([inState('a', 'sleeping'), inState('b', 'sleeping')])
    expect(await row('other')).toMatchObject({ state: 'sleeping' })
    for (const server of [a!, b!]) {
      expect(lifecycle(server).map((route) => route.split(/[ ?]/)[1])).toEqual([
        '/sleep',
        '/wake_up',
        '/sleep',
      ])
    }
  })

  it('puts awake servers to sleep, even if it began and ended between two sweeps', async () => {
    const rm = await simulated()
    const m = manager({ sweepEveryMs: 150 })
    await register(m, 'rm', rm)
    await waitFor('a first probe', async () => (await row('rm')).lastProbeAt !== null)
    await (await batch('simulated-rm', true))()
    await inState('rm', 'sleeping')
  })
})

describe('a server that another service launched', () => {
  const command = [process.execPath, '-e', 'setInterval(() => {}, 1_000)']
  const pidFile = (name: string) => join(dataDir, 'servers', `${name}.pid`)

  async function serviceOn(host: string, seenMsAgo = 0): Promise<number> {
    const [made] = await db.adhoc<{ id: number }>(
      `insert into process (host, pid, local, state, role, last_seen_at)
       values ($1, 1, false, 'alive', 'server', clock_timestamp() - $2 * interval '1 millisecond') returning id`,
      [host, seenMsAgo],
    )
    return made!.id
  }
  const report = (id: number) =>
    void db.adhoc('update process set last_seen_at = clock_timestamp() where id = $1', [id])
  const launched = (name: string, url: string, processId: number, source: 'file' | 'call') =>
    db.adhoc(
      `insert into server (name, url, engine, kind, model, tags, state, launch)
       values ($1, $2, 'vllm', 'discriminative', 'm', '{}', 'registering', $3)`,
      [name, url, { argv: command, cwd: null, source, model: 'm', complete: true, processId }],
    )

  /** The database, except that `before` is called before each read of the last report of a server process. */
  const withReports = (before: (processId: unknown) => unknown): Database =>
    Object.create(db, {
      rows: {
        value: async (name: string, text: string, values: unknown[] = []) => {
          if (name === 'server-report') await before(values[0])
          return db.rows(name, text, values)
        },
      },
    })

  function launcher(
    options: Pick<LaunchOptions, 'servers' | 'allowCalls'> & { processId?: number },
    reports: Database = db,
  ): ServerLauncher {
    const control = new Database(database.url, log, SERVER_POOLS.control)
    databases.push(control)
    const registry = new ServerRegistry(db)
    const locks = new ServerLocks(control)
    const processId = options.processId ?? 0
    return new ServerLauncher(
      {
        ...{ db: reports, queue, registry, locks, processId, timings: MODEL_TIMINGS, log },
        isTurn: undefined,
      },
      { dataDir, env: environment({}), ...options, processId },
    )
  }

  itInFullRun(
    'is launched again if that service was killed while the process waited for its restart',
    async () => {
      await launched('waits', 'http://127.0.0.1:1', await serviceOn('earlier', 3_500), 'call')
      manager({}, true, { allowCalls: true, processId: await serviceOn('now') })
      await waitFor('its process', () => existsSync(pidFile('waits')))
    },
  )

  it('is free at once if that service has ended on this host', async () => {
    const earlier = await serviceOn(PROCESS_HOST)
    await db.adhoc('update process set pid = $2 where id = $1', [earlier, spawnSync('true').pid])
    await launched('rm-0', 'http://127.0.0.1:1', earlier, 'file')
    let reads = 0
    const processId = await serviceOn('now')
    await launcher(
      { processId, servers: [], allowCalls: false },
      withReports(() => reads++),
    ).start()
    expect(reads).toBe(1)
    expect(await activeServers(db)).toEqual([])
  })

  it.each([
    ['alive', 'silent'],
    ['dead', 'declared dead'],
  ])('keeps its name after an outage of the database (process %s: %s)', async (state) => {
    const other = await serviceOn('gpu-7', 60_000)
    await db.adhoc(
      `update process set state = $2, ended_at = case when $2 = 'dead' then clock_timestamp() end where id = $1`,
      [other, state],
    )
    await launched('rm-0', 'http://gpu-7.invalid:8101', other, 'file')
    const entry = LaunchServerInput.parse({ name: 'rm-0', engine: 'vllm', port: 1, command })
    const m = manager({}, false, { allowCalls: true, processId: await serviceOn('gpu-8') })
    const launch = m.launch(entry)
    const reports = setInterval(
      () =>
        void db.adhoc(
          "update process set state = 'alive', ended_at = null, last_seen_at = clock_timestamp() where id = $1",
          [other],
        ),
      300,
    )
    const [answer] = await Promise.allSettled([launch])
    clearInterval(reports)
    expect(answer).toMatchObject({ status: 'rejected', reason: { reason: 'server_busy' } })
    expect(await row('rm-0')).toMatchObject({ launch: { processId: other } })
  })

  it('is waited for at a start, which respects the calls made meanwhile', async () => {
    const other = await serviceOn('gpu-7')
    const earlier = await serviceOn('gpu-8')
    await db.adhoc("update process set state = 'dead' where id = $1", [earlier])
    await launched('waited', 'http://gpu-7.invalid:1', other, 'call')
    for (const name of ['relaunched', 'removed', 'registered', 'updated']) {
      await launched(name, 'http://127.0.0.1:1', earlier, 'call')
    }
    const leftover = spawn(command[0]!, command.slice(1), { detached: true })
    const mark = await waitFor('its mark', () => markOf(leftover.pid!))
    mkdirSync(join(dataDir, 'servers'), { recursive: true })
    writeRecord(pidFile('relaunched'), { ...mark, keeper: mark, fingerprint: '' })
    const looked = Promise.withResolvers<void>()
    const reported = Promise.withResolvers<void>()
    const processId = await serviceOn('gpu-8')
    const here = launcher(
      { processId, servers: [], allowCalls: true },
      withReports(async (id) => {
        if (id !== other) return
        looked.resolve()
        await reported.promise
      }),
    )
    const started = here.start()
    try {
      await looked.promise
      const m = manager({}, false, { processId })
      const busy = { reason: 'server_busy', message: expect.stringContaining('this service') }
      await expect(register(m, 'relaunched', await simulated())).rejects.toMatchObject(busy)
      for (const [at, name] of ['new', 'relaunched'].entries()) {
        const input = { name, engine: 'vllm', port: at + 2, command }
        await here.launch(LaunchServerInput.parse(input))
      }
      await m.remove({ name: 'removed' })
      await m.update({ name: 'updated' }, { weight: 2 })
      await db.adhoc("update server set launch = null, state = 'ready' where name = 'registered'")
      const pidsOf = (names: string[]) =>
        names.map(
          (name) => (JSON.parse(readFileSync(pidFile(name), 'utf8')) as { pid: number }).pid,
        )
      const pids = await waitFor('the processes', () => {
        const found = pidsOf(['new', 'relaunched'])
        return !found.includes(leftover.pid!) && found
      })
      await db.adhoc("update process set state = 'dead' where id = $1", [other])
      reported.resolve()
      await started
      expect(pidsOf(['new', 'relaunched'])).toEqual(pids)
      expect(pids.map((pid) => inspectProcess(pid)?.running)).toEqual([true, true])
      expect(inspectProcess(leftover.pid!)?.running ?? false).toBe(false)
      expect((await activeServers(db)).map(({ name }) => name)).not.toContain('removed')
      expect(await row('registered')).toMatchObject({ state: 'ready', launch: null })
      expect(await row('updated')).toMatchObject({ weight: 2, launch: { processId } })
    } finally {
      reported.resolve()
      leftover.kill('SIGKILL')
      await here.stop(5_000)
    }
  })

  it.each([
    ['is launched after an outage of the database during the start', '57P03', ['rm-0', 'rm-1']],
    ['does not prevent the launches of the others if its own fails', '22000', ['rm-1']],
  ])('%s', async (_, code, started) => {
    const servers = ['rm-0', 'rm-1'].map((name, at) =>
      LaunchServerInput.parse({ name, engine: 'vllm', port: at + 1, command }),
    )
    const note = vi.spyOn(ServerRegistry.prototype, 'note')
    note.mockRejectedValueOnce(Object.assign(new Error('no'), { code }))
    const here = launcher({ servers, allowCalls: false, processId: await serviceOn('gpu-8') })
    try {
      await here.start()
      const running = () => started.every((name) => existsSync(pidFile(name)))
      await waitFor('the processes', running)
    } finally {
      note.mockRestore()
      await here.stop(5_000)
    }
  })

  it('has no other process after two launches at the same time', async () => {
    const started = join(dataDir, 'started')
    const script = `require('node:fs').appendFileSync(${JSON.stringify(started)}, process.pid + ' ')
      setInterval(() => {}, 1_000)`
    const entries = [1, 2].map((port) =>
      LaunchServerInput.parse({
        ...{ name: 'twice', engine: 'vllm', port },
        command: [process.execPath, '-e', script],
      }),
    )
    const here = launcher({ servers: [], allowCalls: true })
    await Promise.all(entries.map((entry) => here.launch(entry)))
    await waitFor('a process', () => existsSync(started))
    await here.stop(5_000)
    const pids = readFileSync(started, 'utf8').trim().split(' ').map(Number)
    expect(pids.filter((pid) => inspectProcess(pid)?.running)).toEqual([])
  })

  it('is not launched by a call during an outage of the database, and the call fails at once', async () => {
    await launched('rm-0', 'http://gpu-7.invalid:8101', await serviceOn('gpu-7'), 'call')
    const entry = LaunchServerInput.parse({ name: 'rm-0', engine: 'vllm', port: 1, command })
    const options = { processId: await serviceOn('gpu-8'), servers: [], allowCalls: true }
    let reads = 0
    const outage = Object.assign(new Error('the database system is shutting down'), {
      code: '57P03',
    })
    const here = launcher(
      options,
      withReports(() => reads++ === 0 && Promise.reject(outage)),
    )
    await expect(here.launch(entry)).rejects.toBe(outage)
    expect(reads).toBe(1)
  })

  it('keeps its name after a crash of this machine that left a record of an earlier process', async () => {
    const other = await serviceOn('gpu-7')
    await launched('rm-0', 'http://gpu-7.invalid:8101', other, 'call')
    const ended = { ...markOf(process.pid)!, pid: spawnSync('true').pid }
    mkdirSync(join(dataDir, 'servers'), { recursive: true })
    writeRecord(pidFile('rm-0'), { ...ended, keeper: ended, fingerprint: '' })
    const entry = LaunchServerInput.parse({ name: 'rm-0', engine: 'vllm', port: 1, command })
    const options = { processId: await serviceOn('gpu-8'), servers: [], allowCalls: true }
    const here = launcher(
      options,
      withReports(() => report(other)),
    )
    await expect(here.launch(entry)).rejects.toMatchObject({ reason: 'server_busy' })
    expect(await row('rm-0')).toMatchObject({ launch: { processId: other } })
    rmSync(pidFile('rm-0'))
  })

  it('keeps its state when the process ends that this service launched earlier', async () => {
    let ends = 0
    const loud = Object.create(log, { info: { value: () => ends++ } })
    const entries = ['ends', 'stops'].map((name, port) =>
      LaunchServerInput.parse({ name, engine: 'vllm', port: port + 1, command }),
    )
    const own = { servers: entries, processId: await serviceOn('gpu-8') }
    const m = manager({}, true, own, loud)
    // The record holds the pid once the keeper has started the process.
    const pid = await waitFor('the processes', () => {
      if (!existsSync(pidFile('stops')) || !existsSync(pidFile('ends'))) return null
      return (JSON.parse(readFileSync(pidFile('ends'), 'utf8')) as { pid: number }).pid
    })
    await m.stop()
    const other = await serviceOn('gpu-7')
    await db.adhoc(
      `update server set state = 'ready', state_cause = 'tested', launch = jsonb_set(launch, '{processId}', $1)`,
      [JSON.stringify(other)],
    )
    process.kill(pid, 'SIGKILL')
    await waitFor('the end', async () => {
      return ends > 0 || (await row('ends')).state !== 'ready'
    })
    await m.close(0)
    for (const name of ['ends', 'stops']) {
      expect(await row(name)).toMatchObject({ state: 'ready', stateCause: 'tested' })
    }
  })

  it('has the cause of its end among its events even if the database had an outage then', async () => {
    const here = launcher({ servers: [], allowCalls: true })
    const input = { name: 'rm-0', engine: 'vllm', port: 1, command }
    await here.launch(LaunchServerInput.parse(input))
    await waitFor('its process', () => existsSync(pidFile('rm-0')))
    const { pid } = JSON.parse(readFileSync(pidFile('rm-0'), 'utf8')) as { pid: number }
    const read = vi.spyOn(ServerRegistry.prototype, 'byNumber')
    read.mockRejectedValueOnce(Object.assign(new Error('no'), { code: '57P03' }))
    try {
      process.kill(pid, 'SIGKILL')
      await waitFor('the event', async () =>
        (await history('rm-0')).some(({ cause }) => cause.includes('SIGKILL')),
      )
    } finally {
      read.mockRestore()
      await here.stop(5_000)
    }
  })

  it('has no second process after this service was paused for long', async () => {
    const here = launcher({ servers: [], allowCalls: true, processId: await serviceOn('gpu-8') })
    try {
      for (const [at, name] of ['launched', 'registered', 'kept'].entries()) {
        const input = { name, engine: 'vllm', port: at + 1, command }
        await here.launch(LaunchServerInput.parse(input))
        await waitFor('its process', () => existsSync(pidFile(name)))
      }
      await db.adhoc(
        `update server set launch = jsonb_set(launch, '{processId}', $1) where name = 'launched'`,
        [JSON.stringify(await serviceOn('gpu-7'))],
      )
      await db.adhoc("update server set launch = null where name = 'registered'")
      await here.endLost()
      const left = ['launched', 'registered', 'kept'].filter((name) => existsSync(pidFile(name)))
      expect(left).toEqual(['kept'])
    } finally {
      await here.stop(5_000)
    }
  })

  it('ends with this service even if the database does not answer', async () => {
    const input = { name: 'rm-0', engine: 'vllm', port: 1, command }
    const here = launcher({ servers: [], allowCalls: true })
    await here.launch(LaunchServerInput.parse(input))
    await waitFor('its process', () => existsSync(pidFile('rm-0')))
    const hanging = Promise.withResolvers<undefined>()
    const reads = vi.spyOn(ServerRegistry.prototype, 'byNumber')
    reads.mockReturnValueOnce(hanging.promise)
    const stopped = here.stop(5_000)
    try {
      await waitFor('its end', () => !existsSync(pidFile('rm-0')))
    } finally {
      reads.mockRestore()
      hanging.resolve(undefined)
      await stopped
    }
  })

  it.each([
    ['while this service takes it over', 5_000],
    ['while its take-over waits for the database', 0],
  ])('ends with this service if the stop begins %s', async (_, withinMs) => {
    const entry = LaunchServerInput.parse({ name: 'rm-0', engine: 'vllm', port: 1, command })
    const own = { servers: [entry], allowCalls: false, processId: await serviceOn('gpu-8') }
    const killed = launcher(own)
    await killed.start()
    await waitFor('its process', () => existsSync(pidFile('rm-0')))
    const { pid } = JSON.parse(readFileSync(pidFile('rm-0'), 'utf8')) as { pid: number }
    await db.adhoc("update server set state = 'ready'")
    await db.adhoc("update process set state = 'dead' where id = $1", [own.processId])
    const reached = Promise.withResolvers<void>()
    const written = Promise.withResolvers<void>()
    const note = vi.spyOn(ServerRegistry.prototype, 'note')
    note.mockImplementationOnce(async () => {
      reached.resolve()
      await written.promise
    })
    const here = launcher({ ...own, processId: await serviceOn('gpu-8') })
    try {
      const started = here.start()
      await reached.promise
      const stopped = here.stop(withinMs)
      if (withinMs > 0) written.resolve()
      await stopped
      written.resolve()
      await started
      expect(inspectProcess(pid)?.running ?? false).toBe(false)
      expect(await row('rm-0')).toMatchObject({ state: 'unreachable' })
    } finally {
      note.mockRestore()
      written.resolve()
      await Promise.all([here.stop(5_000), killed.stop(5_000)])
    }
  })

  it('reports its model when it is resumed, if it was launched while drained', async () => {
    const rm = await simulated()
    await launched('rm-0', rm.url, await serviceOn('gpu-7'), 'call')
    await db.adhoc(
      `update server set state = 'draining', state_cause = 'drain requested', launch = launch || '{"model": null}'`,
    )
    const m = manager({}, false)
    expect(await m.resume({ name: 'rm-0' })).toMatchObject({ state: 'ready', model: rm.model })
  })

  it('causes no notifications while it sleeps without a self-test', async () => {
    const rm = await simulated()
    rm.control({ asleep: true })
    await launched('rm-0', rm.url, await serviceOn('gpu-7'), 'call')
    await db.adhoc(
      `update server set state = 'sleeping', model = $1, launch = launch || '{"model": null}'`,
      [rm.model],
    )
    const changed = vi.spyOn(ServerRegistry.prototype, 'changed')
    try {
      const probed = await manager({}, false).probe({ name: 'rm-0' })
      expect(probed).toMatchObject({ state: 'sleeping', version: expect.any(String) })
      expect(changed).not.toHaveBeenCalled()
    } finally {
      changed.mockRestore()
    }
  })

  it('belongs to its user once it is registered, with the model of the registration', async () => {
    const rm = await simulated()
    await launched('rm-0', 'http://127.0.0.1:1', 0, 'call')
    await db.adhoc(`update server set launch = launch || '{"model": null}'`)
    const m = manager({}, false)
    const named = { engine: 'vllm', model: 'adapter', ifUnreachable: 'keep' }
    expect(await register(m, 'rm-0', rm, named)).toMatchObject({ state: 'unreachable' })
    expect(await m.probe({ name: 'rm-0' })).toMatchObject({ model: 'adapter' })
    expect(await register(m, 'rm-0', rm)).toMatchObject({ state: 'ready' })
    await launcher({ processId: await serviceOn('gpu-8'), servers: [], allowCalls: false }).start()
    expect(await row('rm-0')).toMatchObject({ state: 'ready', launch: null })
  })

  it('stays as it is when this service stops before that service reports', async () => {
    const other = await serviceOn('gpu-7')
    await launched('of-file', 'http://gpu-7.invalid:1', other, 'file')
    await launched('of-call', 'http://gpu-7.invalid:2', other, 'call')
    const before = await activeServers(db)
    const input = { engine: 'vllm', port: 1, command }
    const servers = [LaunchServerInput.parse({ name: 'of-file', ...input })]
    const processId = await serviceOn('gpu-8')
    for (const options of [
      { servers: [], allowCalls: false },
      { servers, allowCalls: true },
    ]) {
      const stopped = launcher({ processId, ...options })
      const started = stopped.start()
      await stopped.stop(0)
      await started
    }
    const stopped = launcher({ processId, servers: [], allowCalls: true })
    const launch = stopped.launch(LaunchServerInput.parse({ name: 'of-call', ...input }))
    const [answer] = await Promise.allSettled([launch, stopped.stop(0)])
    const steady = ({ state, url, launch }: ServerRow) => ({ state, url, launch })
    expect((await activeServers(db)).map(steady)).toEqual(before.map(steady))
    expect(answer).toMatchObject({ status: 'rejected', reason: { reason: 'shutting_down' } })
  })

  it('is left alone while another service on this data folder runs it', async () => {
    const rm = await simulated()
    const engine = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1_000)'])
    try {
      const mark = await waitFor('its mark', () => markOf(engine.pid!))
      mkdirSync(join(dataDir, 'servers'), { recursive: true })
      const record = { ...mark, keeper: mark, fingerprint: '' }
      writeRecord(pidFile('neighbor'), record)
      writeRecord(join(dataDir, 'servers', 'neighbor.owner'), mark)
      await launched('neighbor', 'http://127.0.0.1:1', await serviceOn('here'), 'file')
      await db.adhoc("update process set state = 'dead' where host = 'here'")
      const processId = await serviceOn('here')
      await launcher({ processId, servers: [], allowCalls: false }).start()
      expect(await row('neighbor')).toMatchObject({ state: 'registering' })
      const m = manager({}, false, { processId })
      const refused = { reason: 'server_busy', message: expect.stringContaining('data folder') }
      await expect(register(m, 'neighbor', rm)).rejects.toMatchObject(refused)
      await expect(m.update({ name: 'neighbor' }, { url: rm.url })).rejects.toMatchObject(refused)
    } finally {
      engine.kill('SIGKILL')
      rmSync(pidFile('neighbor'), { force: true })
    }
  })

  it('is not launched here after it was removed or launched by a call, and stays drained', async () => {
    const other = await serviceOn('gpu-7')
    const reports = setInterval(() => report(other), 100)
    const names = ['removed', 'called', 'drained']
    const entries = names.map((name, at) =>
      LaunchServerInput.parse({ name, engine: 'vllm', port: at + 1, command }),
    )
    for (const name of names) await launched(name, 'http://gpu-7.invalid:1', other, 'file')
    let refusals = 0
    let ends = 0
    const loud = Object.create(log, {
      error: { value: () => refusals++ },
      info: { value: () => ends++ },
    })
    const own = { servers: entries, allowCalls: true, processId: await serviceOn('gpu-8') }
    const m = manager({ freeNameEveryMs: 50 }, true, own, loud)
    try {
      await waitFor('the refusals', () => refusals === 3)
      await m.drain({ name: 'drained' })
      await m.remove({ name: 'called' })
      await m.launch(entries[1]!)
      const pidOfCalled = () =>
        (JSON.parse(readFileSync(pidFile('called'), 'utf8')) as { pid: number }).pid
      const pid = await waitFor('its process', () => existsSync(pidFile('called')) && pidOfCalled())
      await m.remove({ name: 'removed' })
      await waitFor('the ends of the waits', () => ends === 2 || existsSync(pidFile('removed')))
      expect((await activeServers(db)).map(({ name }) => name)).toEqual(['called', 'drained'])
      expect(pidOfCalled()).toBe(pid)
    } finally {
      clearInterval(reports)
    }
    await db.adhoc("update process set state = 'dead' where id = $1", [other])
    await waitFor('its process', () => existsSync(pidFile('drained')))
    expect(await row('drained')).toMatchObject({ state: 'draining' })
  })

  it('is launched here once that service no longer has it in its servers file', async () => {
    const other = await serviceOn('gpu-7')
    const reports = setInterval(() => report(other), 100)
    const entry = LaunchServerInput.parse({ name: 'rm-0', engine: 'vllm', port: 1, command })
    await launched('rm-0', 'http://gpu-7.invalid:1', other, 'file')
    let refusals = 0
    const loud = Object.create(log, { error: { value: () => refusals++ } })
    const own = { servers: [entry], processId: await serviceOn('gpu-8') }
    manager({ freeNameEveryMs: 50 }, true, own, loud)
    try {
      await waitFor('the refusal', () => refusals > 0)
      await launcher({ processId: other, servers: [], allowCalls: false }).start()
      await waitFor('its process', () => existsSync(pidFile('rm-0')))
    } finally {
      clearInterval(reports)
    }
  })

  it('stays with that service if it was launched there while this service was down', async () => {
    const entry = LaunchServerInput.parse({ name: 'rm-0', engine: 'vllm', port: 1, command })
    const killed = launcher({
      servers: [entry],
      allowCalls: false,
      processId: await serviceOn('gpu-8'),
    })
    await killed.start()
    await waitFor('its process', () => existsSync(pidFile('rm-0')))
    const other = await serviceOn('gpu-7')
    await db.adhoc(
      `update server set url = 'http://gpu-7.invalid:1', launch = jsonb_set(launch, '{processId}', $1)`,
      [JSON.stringify(other)],
    )
    const processId = await serviceOn('gpu-8')
    const here = launcher(
      { servers: [entry], allowCalls: false, processId },
      withReports((id) => id === other && report(other)),
    )
    try {
      await here.start()
      expect(await row('rm-0')).toMatchObject({ launch: { processId: other } })
      await waitFor('the end of the process here', () => !existsSync(pidFile('rm-0')))
    } finally {
      await Promise.all([here.stop(5_000), killed.stop(5_000)])
    }
  })

  it('keeps its name for itself until that service has ended', async () => {
    const rm = await simulated()
    const other = await serviceOn('gpu-7')
    const reports = setInterval(() => report(other), 100)
    try {
      await launched('rm-0', 'http://gpu-7.invalid:8101', other, 'file')
      const errors: object[] = []
      const loud = Object.create(log, { error: { value: (about: object) => errors.push(about) } })
      const entry = LaunchServerInput.parse({ name: 'rm-0', engine: 'vllm', port: 1, command })
      const own = { servers: [entry], allowCalls: true, processId: await serviceOn('gpu-8') }
      const m = manager({ freeNameEveryMs: 50 }, true, own, loud)
      await waitFor('the refusal', () => errors.length > 0)
      expect(errors).toEqual([{ server: 'rm-0', host: 'gpu-7' }])
      const refused = { reason: 'server_busy', message: expect.stringContaining('gpu-7') }
      await expect(m.launch(entry)).rejects.toMatchObject(refused)
      await expect(register(m, 'rm-0', rm)).rejects.toMatchObject(refused)
      await expect(m.update({ name: 'rm-0' }, { url: rm.url })).rejects.toMatchObject(refused)
      expect(await row('rm-0')).toMatchObject({
        url: 'http://gpu-7.invalid:8101',
        launch: { processId: other },
      })
      expect(existsSync(pidFile('rm-0'))).toBe(false)
    } finally {
      clearInterval(reports)
    }
    await db.adhoc("update process set state = 'dead' where id = $1", [other])
    await waitFor('its process', () => existsSync(pidFile('rm-0')))
    expect(await row('rm-0')).toMatchObject({ url: 'http://127.0.0.1:1' })
  })
})
