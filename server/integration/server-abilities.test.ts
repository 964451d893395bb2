import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { environment } from '../../testkit/service/service.ts'
import type { ServerOptionsInput } from '../../testkit/simulated-rm/options.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import { RegisterServerInput } from '../contract/servers.ts'
import { answer, FakeServer, scoreBody } from '../engines/testing/fake-server.ts'
import { recorded } from '../engines/testing/recorded-vllm.ts'
import { createLogger } from '../log.ts'
import { RewardModelManager } from '../model-servers/reward-model-manager.ts'
import { SERVER_POOLS } from '../store/connection-budget.ts'
import { Database } from '../store/database.ts'
import { JobQueue } from '../store/job-queue.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'

const database = testDatabaseForFile()
const log = createLogger('silent', 'test')
let db: Database
let control: Database
let queue: JobQueue
let manager: RewardModelManager
let dataDir: string
let servers: { close(): Promise<void> }[] = []

beforeAll(async () => {
  db = new Database(database.url, log, { max: 10, name: 'test', keyed: true })
  control = new Database(database.url, log, SERVER_POOLS.control)
  queue = new JobQueue(db, log, { supervise: true })
  await queue.start()
  dataDir = mkdtempSync(join(tmpdir(), 'rewardops-abilities-'))
  const launch = { dataDir, env: environment({}), servers: [], allowCalls: false, processId: 0 }
  const timings = { asleepWithinMs: 300, asleepLookMs: 20, drainLookMs: 20 }
  manager = new RewardModelManager({ db, control, queue, log, launch, timings })
})
afterAll(async () => {
  await manager?.stop()
  await manager?.close(0)
  await queue?.stop()
  await control?.close()
  await db?.close()
  rmSync(dataDir, { recursive: true, force: true })
})
beforeEach(() => db.adhoc('truncate server, server_event, server_minute, pool, lease, batch'))
afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()))
  servers = []
})

async function simulated(options: ServerOptionsInput = {}): Promise<SimulatedServer> {
  const server = await SimulatedServer.start(options)
  servers.push(server)
  return server
}

async function fake(...handler: Parameters<typeof FakeServer.start>): Promise<FakeServer> {
  const server = await FakeServer.start(...handler)
  servers.push(server)
  return server
}

const register = (name: string, { url }: { url: string }, fields = {}) =>
  manager.register(RegisterServerInput.parse({ name, url, ...fields }))

describe('a server that scores everything the same', () => {
  it('is quarantined despite an override if it serves a reward model', async () => {
    const rm = await simulated({ dialect: 'llamacpp', activation: 'softmax' })
    const kept = await register('rm', rm, { selfTestOverride: true })
    expect(kept).toMatchObject({
      state: 'quarantined',
      selfTest: { verdict: 'constant', raw: 1 },
      stateCause: expect.stringMatching(/softmax over one label/),
    })
    await expect(manager.update({ name: 'rm' }, { selfTestOverride: true })).rejects.toMatchObject({
      reason: 'unsupported_setting',
      message: expect.stringContaining('constant'),
    })
  })

  it.each([
    ['http', '{"results":[]}', { engine: 'http' }],
    ['openrlhf', scoreBody('openrlhf', '1'), { engine: 'openrlhf' }],
  ] as const)('is used if 0 and 1 are normal scores: %s', async (engine, probed, fields) => {
    const verifier = await fake((call, response) => {
      const probing = call.body.includes('"samples":[]')
      answer(200, probing ? probed : scoreBody(engine, '1'))(call, response)
    })
    expect(await register('verifier', verifier, { ...fields, model: 'v' })).toMatchObject({
      state: 'ready',
      selfTest: { verdict: 'not_applicable' },
    })
  })
})

describe('a model of two labels', () => {
  const options = (dialect: ServerOptionsInput['dialect']): ServerOptionsInput => ({
    ...{ dialect, labels: 2, activation: 'softmax' },
  })
  const isGood = (score: number, bounded: boolean) => score > (bounded ? 0.5 : 0)

  it('has scores of the same sign on every engine for a named label', async () => {
    for (const label of [0, 1]) {
      const signs = new Set<boolean>()
      for (const dialect of ['vllm', 'sglang', 'tei', 'llamacpp'] as const) {
        const rm = await simulated(options(dialect))
        const bounded = dialect === 'llamacpp'
        const fields = { model: `${dialect}-${label}`, label, selfTestOverride: bounded }
        // vLLM and SGLang check the model's name.
        const model = dialect === 'vllm' || dialect === 'sglang' ? { model: 'simulated-rm' } : {}
        const row = await register(dialect, rm, { ...fields, ...model })
        expect(row, JSON.stringify(row.selfTest)).toMatchObject({ state: 'ready' })
        signs.add(isGood(row.selfTest?.calibration as number, bounded))
        await manager.remove({ name: dialect })
      }
      expect(signs.size, `label ${label}`).toBe(1)
    }
  })

  it('is scored by its last label unless one is named', async () => {
    for (const dialect of ['vllm', 'sglang', 'tei'] as const) {
      const rm = await simulated(options(dialect))
      const usual = await register(dialect, rm)
      const last = await register(dialect, rm, { label: dialect === 'tei' ? 'LABEL_1' : 1 })
      const first = await register(dialect, rm, { label: 0 })
      expect(last.selfTest?.calibration).toBe(usual.selfTest?.calibration)
      expect(first.selfTest?.calibration).toBe(-(usual.selfTest?.calibration as number))
      await manager.remove({ name: dialect })
    }
  })

  it('keeps the warning of TEI until the registration names a label', async () => {
    const rm = await simulated(options('tei'))
    const unnamed = { label: 'LABEL_1', warnings: [expect.stringMatching(/2 labels.*last one/)] }
    expect(await register('rm', rm)).toMatchObject(unnamed)
    expect(await manager.probe({ name: 'rm' })).toMatchObject(unnamed)
    expect(await manager.update({ name: 'rm' }, { url: rm.url })).toMatchObject(unnamed)
    const named = { label: 'LABEL_1', warnings: [] }
    expect(await manager.update({ name: 'rm' }, { label: 'LABEL_1' })).toMatchObject(named)
    expect(await manager.probe({ name: 'rm' })).toMatchObject(named)
    expect(await manager.update({ name: 'rm' }, { label: '0' })).toMatchObject({ label: 'LABEL_0' })
    expect(await manager.probe({ name: 'rm' })).toMatchObject({ label: 'LABEL_0', warnings: [] })
  })

  it('has no label on TEI once the server has a model of one label', async () => {
    let rm = await simulated(options('tei'))
    const address = await fake(async ({ method, path, body }, response) => {
      const headers = { 'content-type': 'application/json' }
      const answer = await fetch(rm.url + path, { method, headers, body: body || null })
      response.writeHead(answer.status, headers).end(await answer.text())
    })
    expect(await register('rm', address)).toMatchObject({ label: 'LABEL_1' })
    rm = await simulated({ ...options('tei'), labels: 1 })
    for (const _ of ['the chosen label is forgotten', 'and not taken for a named one']) {
      expect(await manager.probe({ name: 'rm' })).toMatchObject({ label: null, warnings: [] })
    }
  })

  it('is quarantined on llama.cpp until its label is named and the self-test overridden', async () => {
    const rm = await simulated(options('llamacpp'))
    expect(await register('rm', rm, { selfTestOverride: true })).toMatchObject({
      state: 'quarantined',
      selfTest: { verdict: 'label_unknown' },
    })
    expect(await register('rm', rm, { label: 1 })).toMatchObject({
      state: 'quarantined',
      selfTest: { verdict: 'squashed' },
    })
    expect(await manager.update({ name: 'rm' }, { selfTestOverride: true })).toMatchObject({
      state: 'ready',
      label: '1',
    })
  })

  it.each([
    ['vllm', { label: 'positive' }, /vllm cannot score the label "positive"/],
    ['llamacpp', { label: 2 }, /llamacpp cannot score the label "2"/],
    ['openrlhf', { label: 0 }, /openrlhf cannot score the label/],
    ['sglang', { route: 'pair' }, /sglang does not support "pair"/],
    ['vllm', { route: 'pair', label: 0 }, /the server returns one score/],
  ] as const)('is refused on %s with unsupported settings: %j', async (engine, fields, message) => {
    await expect(
      register('rm', { url: 'http://127.0.0.1:9' }, { engine, ...fields }),
    ).rejects.toMatchObject({
      reason: 'unsupported_setting',
      message: expect.stringMatching(message),
    })
  })
})

describe('the route', () => {
  it.each([
    ['a cross-encoder of 0.11.0', { serves: 'pair', version: '0.11.0' }, 'pair'],
    ['a cross-encoder of 0.14.0', { serves: 'pair', version: '0.14.0' }, 'pair'],
    ['a cross-encoder of 0.32.0', { serves: 'pair', version: '0.32.0' }, 'pair'],
    ['a process reward model of 0.11.0', { serves: 'token', version: '0.11.0' }, 'token'],
    ['a process reward model of 0.32.0', { serves: 'token', version: '0.32.0' }, 'token'],
    ['a reward model of 0.11.0', { version: '0.11.0' }, 'classify'],
    ['a reward model of 0.14.0', { version: '0.14.0' }, 'classify'],
  ] as const)('of %s is found, and its scores are raw', async (_what, options, route) => {
    const row = await register('rm', await simulated(options))
    expect(row, JSON.stringify(row.selfTest)).toMatchObject({
      ...{ state: 'ready', route, namedRoute: null, selfTest: { verdict: 'raw' } },
    })
  })

  it('may be named, and stays named when the server is probed again', async () => {
    const rm = await simulated({ serves: 'token', version: '0.14.0' })
    expect(await register('rm', rm)).toMatchObject({ route: 'classify' })
    const named = await register('rm', rm, { route: 'token' })
    expect(named).toMatchObject({ state: 'ready', route: 'token', namedRoute: 'token' })
    expect(await manager.probe({ name: 'rm' })).toMatchObject({ state: 'ready', route: 'token' })
  })

  it('of llama.cpp has a warning about how prompt and response are joined', async () => {
    const rm = await simulated({ dialect: 'llamacpp' })
    expect(await register('rm', rm)).toMatchObject({
      state: 'ready',
      warnings: [expect.stringMatching(/plain concatenation.*`rerank` template/)],
    })
  })
})

describe('a judge', () => {
  const generative = { kind: 'generative', model: 'rm' }

  it.each(['0.11.0', '0.14.0', '0.32.0'])('is ready once it has answered: %s', async (version) => {
    const judge = await simulated({ serves: 'generate', version })
    expect(await register('judge', judge, { kind: 'generative' })).toMatchObject({ state: 'ready' })
    expect(judge.stats().textsTotal).toBe(1)
  })

  it('cannot be a process reward model, which has the chat route on 0.14.0', async () => {
    const prm = await fake(recorded.prm14)
    await expect(register('judge', prm, generative)).rejects.toMatchObject({
      reason: 'server_not_recognized',
      message: expect.stringContaining('does not support Chat Completions API'),
    })
    const kept = { ...generative, engine: 'vllm', ifUnreachable: 'keep' }
    expect(await register('judge', prm, kept)).toMatchObject({ state: 'unreachable' })
  })

  it('is quarantined if it fails', async () => {
    const judge = await simulated({ serves: 'generate', faults: { error500: 1 } })
    expect(await register('judge', judge, { kind: 'generative' })).toMatchObject({
      state: 'quarantined',
      selfTest: { verdict: 'failed' },
    })
  })
})

it('a pool whose tokenizers differ is detected, although its scores agree', async () => {
  const [a, b] = await Promise.all([simulated(), simulated({ charsPerToken: 3.2 })])
  expect(await register('a', a!)).toMatchObject({ state: 'ready' })
  expect(await register('b', b!)).toMatchObject({
    state: 'quarantined',
    selfTest: { verdict: 'differs', detail: expect.stringMatching(/over \d+ tokens.*\(a\)/) },
  })
})

describe('sleep', () => {
  it('that the server ignores is reported, although it answered 200', async () => {
    await register('rm', await simulated({ sleeps: false }))
    await expect(manager.sleep({ name: 'rm' }, 1)).rejects.toMatchObject({
      reason: 'server_cannot_sleep',
      message: expect.stringContaining('sleep is not supported by this server'),
    })
  })

  it.each(['unreachable', 'dead', 'quarantined'])(
    'is found by a probe of a server in the state %s',
    async (state) => {
      const rm = await simulated()
      await register('rm', rm)
      await fetch(`${rm.url}/sleep?level=1`, { method: 'POST' })
      await db.adhoc('update server set state = $1', [state])
      expect(await manager.probe({ name: 'rm' })).toMatchObject({ state: 'sleeping' })
    },
  )

  it('at level 2 is refused for a server that sleeps at level 1', async () => {
    await register('rm', await simulated())
    expect(await manager.sleep({ name: 'rm' }, 1)).toMatchObject({ state: 'sleeping' })
    expect(await manager.sleep({ name: 'rm' }, 1)).toMatchObject({ state: 'sleeping' })
    await expect(manager.sleep({ name: 'rm' }, 2)).rejects.toMatchObject({
      reason: 'server_busy',
      message: expect.stringMatching(/is already asleep at level 1.*cannot go to level 2/),
    })
  })
})
