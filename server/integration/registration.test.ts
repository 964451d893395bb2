import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { ApiInputs } from '../../testkit/processes/trpc-call.ts'
import { expectRefusal, nothingStored, type Refusal } from '../../testkit/service/refusals.ts'
import { sample } from '../../testkit/service/rollouts.ts'
import { startSelfSigned } from '../../testkit/service/self-signed.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import type { ServerOptionsInput } from '../../testkit/simulated-rm/options.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import { FakeServer } from '../engines/testing/fake-server.ts'

const SECRET = 'sk-never-to-be-seen-4711'

let service: Service
let servers: { close(): Promise<void> }[] = []

beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_WORKERS: '1', LOG_LEVEL: 'debug' } })
})
afterEach(async () => {
  for (const { name } of await service.api.servers.list.query()) {
    await service.api.servers.remove.mutate({ name })
  }
  await Promise.all(servers.map((server) => server.close()))
  servers = []
})
afterAll(() => stopCleanly(service))

async function simulated(options: ServerOptionsInput): Promise<SimulatedServer> {
  const server = await SimulatedServer.start(options)
  servers.push(server)
  return server
}

type Fields = Partial<ApiInputs['servers']['register']>
const register = (name: string, url: string, fields: Fields = {}) =>
  service.api.servers.register.mutate({ name, url, ...fields })

async function refused(fields: object, refusal: Refusal): Promise<void> {
  const body = JSON.stringify({ name: 'new', ...fields })
  expectRefusal(await nothingStored(service, () => service.post('servers.register', body)), refusal)
}

describe('a server that gives raw scores', () => {
  const raw: [string, ServerOptionsInput, string][] = [
    ['the current vLLM', {}, 'vllm'],
    ['vLLM 0.11.0 with its older parameter', { version: '0.11.0' }, 'vllm'],
    ['vLLM 0.12.0', { version: '0.12.0' }, 'vllm'],
    ['vLLM, without an activation', { activation: 'identity' }, 'vllm'],
    ['vLLM, a score per token', { serves: 'token' }, 'vllm'],
    ['SGLang', { dialect: 'sglang' }, 'sglang'],
    ['TEI', { dialect: 'tei' }, 'tei'],
    ['TEI, pairs', { dialect: 'tei', serves: 'pair' }, 'tei'],
    ['llama.cpp', { dialect: 'llamacpp', serves: 'pair' }, 'llamacpp'],
  ]
  it.each(raw)('is ready: %s', async (_, options, engine) => {
    const rm = await simulated(options)
    const server = await register('rm', rm.url)
    expect(server, JSON.stringify(server.selfTest)).toMatchObject({
      state: 'ready',
      engine,
      model: 'simulated-rm',
      selfTest: { verdict: expect.stringMatching(/^(raw|not_applicable)$/), overridden: false },
    })
    expect(server.selfTest!.calibration).toEqual(expect.any(Number))
  })

  it('has all data of its page right after the registration', async () => {
    const rm = await simulated({ dialect: 'tei', permits: 40 })
    const limits = { rpm: 600, tpm: 1e6, tags: ['a100'] }
    await register('described', rm.url, { ...limits, maxInFlight: 12 })
    const detail = await service.api.servers.get.query({ name: 'described' })
    expect(detail).toMatchObject({
      ...limits,
      limit: 12,
      hasFixedLimit: true,
      canSleep: false,
      awakeUntil: null,
      launched: false,
      minutes: [],
      imbalance: null,
      pool: [{ name: 'described', state: 'ready', requestShare: null, capacityShare: 1 }],
      monitors: [],
      health: { suspect: 0, ejected: 0 },
    })
    expect(detail.events).toHaveLength(1)
    expect(detail.events[0]).toMatchObject({
      kind: 'state',
      from: null,
      to: 'ready',
      evidence: { engine: 'tei', verdict: detail.selfTest!.verdict },
    })
    const gone = await service.raw('/api/trpc/servers.get?input={"name":"nobody"}')
    expectRefusal(gone, { status: 404, reason: 'server_not_found', message: 'nobody' })
  })
})

describe('a server with unusable scores', () => {
  const wrong: [string, ServerOptionsInput, string][] = [
    ['always the sigmoid', { activation: 'ignored' }, 'squashed'],
    ['a vLLM without a parameter for raw scores', { version: '0.9.2' }, 'squashed'],
    ['raw and activated scores are swapped', { activation: 'inverted' }, 'inverted'],
  ]
  it.each(wrong)('is quarantined with the reason: %s', async (_, options, verdict) => {
    const rm = await simulated(options)
    const server = await register('rm', rm.url)
    expect(server).toMatchObject({
      state: 'quarantined',
      stateCause: expect.stringContaining(verdict),
      selfTest: { verdict, overridden: false, detail: expect.stringMatching(/\w+ \w+/) },
    })
    const monitors = await service.api.servers.monitors.query()
    expect(monitors).toMatchObject([
      { kind: 'squashed_scores', severity: 'error', serverName: 'rm' },
    ])
    const again = await register('rm', rm.url, { selfTestOverride: true })
    expect(again).toMatchObject({ state: 'ready', selfTest: { verdict, overridden: true } })
  })

  it('is quarantined if it truncates texts, and has a warning if it reports that it does', async () => {
    const shortSighted = await FakeServer.start((call, res) => {
      if (call.method === 'GET') {
        const isList = call.path === '/v1/models'
        const body = { data: [{ id: 'short-sighted', owned_by: 'vllm', max_model_len: 4096 }] }
        res
          .writeHead(isList ? 200 : call.path === '/classify' ? 405 : 404)
          .end(JSON.stringify(body))
        return
      }
      const { messages, use_activation: activated } = JSON.parse(call.body)
      const text: string = messages.map((m: { content: string }) => m.content).join('\n')
      const seen = [...text.slice(0, 1_000)].reduce(
        (sum, c) => (sum * 31 + c.charCodeAt(0)) % 997,
        7,
      )
      const logit = seen / 100 - 5
      const score = activated ? 1 / (1 + Math.exp(-logit)) : logit
      res.end(JSON.stringify({ data: [{ index: 0, probs: [score], num_classes: 1 }] }))
    })
    servers.push(shortSighted)
    expect(await register('short', shortSighted.url)).toMatchObject({
      state: 'quarantined',
      selfTest: { verdict: 'truncated', detail: expect.stringMatching(/truncates texts/) },
    })
    const frank = await simulated({ dialect: 'sglang', autoTruncate: true })
    const { warnings } = await register('frank', frank.url)
    expect(warnings).toMatchObject([expect.stringMatching(/cut|truncat/i)])
  })

  it('is quarantined if its scores differ from its pool’s', async () => {
    const [a, b] = await Promise.all([simulated({}), simulated({ weights: 5 })])
    expect(await register('a', a.url)).toMatchObject({ state: 'ready' })
    expect(await register('b', b.url)).toMatchObject({
      state: 'quarantined',
      selfTest: { verdict: 'differs' },
    })
    const monitors = await service.api.servers.monitors.query()
    expect(monitors).toMatchObject([{ kind: 'drift', serverName: 'b' }])
  })

  it('is quarantined if it returns no scores', async () => {
    const rm = await simulated({ faults: { error500: 1 } })
    expect(await register('rm', rm.url)).toMatchObject({
      state: 'quarantined',
      selfTest: { verdict: 'failed' },
    })
  })
})

describe('a judge', () => {
  it('is registered by its kind, and scores a batch only with a judge template', async () => {
    const rm = await simulated({ dialect: 'chat', model: 'judge' })
    expect(await register('judge', rm.url, { kind: 'generative' })).toMatchObject({
      state: 'ready',
      kind: 'generative',
      engine: 'openai',
      selfTest: { verdict: 'not_applicable' },
    })
    const batch = { run: 'r', step: 1, samples: [sample()], reward: { model: 'judge' } }
    expectRefusal(await service.post('batches.submit', JSON.stringify(batch)), {
      status: 400,
      reason: 'invalid_input',
      message: /"judge" is generative/,
      hint: /rating-1-10/,
    })
  })

  it('is not confused with a reward model', async () => {
    const [judge, rm] = await Promise.all([
      simulated({ serves: 'generate' }),
      simulated({ dialect: 'tei' }),
    ])
    await refused(
      { url: judge.url },
      { status: 422, reason: 'server_not_recognized', message: /./ },
    )
    await refused(
      { url: rm.url, engine: 'tei', kind: 'generative' },
      { status: 422, reason: 'unsupported_setting', message: /kind: tei/ },
    )
  })
})

describe('a pool', () => {
  it('is of one kind: a judge cannot join servers that score, with any engine', async () => {
    const [rm, judge] = await Promise.all([simulated({}), simulated({ serves: 'generate' })])
    await register('rm', rm.url)
    const kind = {
      status: 400,
      reason: 'invalid_input',
      message: /discriminative on rm/,
      hint: /another model name/,
    } as const
    await refused({ url: judge.url, kind: 'generative' }, kind)
    await refused({ url: judge.url, kind: 'generative', engine: 'openai' }, kind)
  })

  it('changes its kind with its only server, but not with one of several', async () => {
    const [rm, judge] = await Promise.all([simulated({}), simulated({ serves: 'generate' })])
    await register('rm', rm.url)
    const changed = await register('rm', judge.url, { kind: 'generative' })
    expect(changed).toMatchObject({ state: 'ready', kind: 'generative' })
    await register('other', judge.url, { kind: 'generative' })
    await refused(
      { name: 'rm', url: rm.url },
      { status: 400, reason: 'invalid_input', message: /generative on other/ },
    )
  })

  it('warns about two servers with the same URL', async () => {
    const rm = await simulated({})
    await register('rm', rm.url)
    const { warnings } = await register('again', `${rm.url}/`)
    expect(warnings).toContainEqual(expect.stringMatching(/same URL as rm/))
    const warningsOf = async (name: string) =>
      (await service.api.servers.get.query({ name })).warnings
    expect(await warningsOf('rm')).toContainEqual(expect.stringMatching(/same URL as again/))
    await service.api.servers.remove.mutate({ name: 'rm' })
    expect(await warningsOf('again')).toEqual([])
  })

  it('refuses this service itself as a server', async () => {
    const rm = await simulated({})
    await register('rm', rm.url)
    const itself = {
      status: 422,
      reason: 'server_not_recognized',
      message: /router address of a rewardops service/,
    } as const
    await refused({ url: service.url }, itself)
    await refused({ url: service.url, kind: 'generative', engine: 'openai' }, itself)
  })
})

describe('a server that cannot be used', () => {
  async function unusable(): Promise<[string, Fields, Refusal][]> {
    const [locked, rm, tei] = await Promise.all([
      simulated({ apiKey: SECRET, dialect: 'sglang' }),
      simulated({}),
      simulated({ dialect: 'tei' }),
    ])
    const redirecting = await FakeServer.start((_, res) => {
      res.writeHead(307, { location: `${rm.url}/?key=${SECRET}` }).end()
    })
    const { url: https, server } = await startSelfSigned((_, res) => res.end())
    servers.push(redirecting, { close: () => new Promise((done) => server.close(() => done())) })
    const as = (reason: Refusal['reason'], message: RegExp): Refusal => ({
      status: 422,
      reason,
      message,
    })
    const sglang = { engine: 'sglang', model: 'simulated-rm' } as const
    const vllm = { engine: 'vllm', model: 'simulated-rm' } as const
    return [
      ['no key', { url: locked.url, ...sglang }, as('key_refused', /without a key/)],
      [
        'a wrong key',
        { url: locked.url, ...sglang, apiKey: `${SECRET}-not` },
        as('key_refused', /refused the key/),
      ],
      [
        'a wrong model',
        { url: rm.url, ...vllm, model: 'another' },
        as('model_not_served', /"another".*"simulated-rm"/),
      ],
      ['a wrong engine', { url: tei.url, ...vllm }, as('server_not_recognized', /./)],
      [
        'a redirect',
        { url: redirecting.url, ...vllm, apiKey: SECRET },
        as('server_redirects', /307/),
      ],
      [
        'a certificate that fails',
        { url: https, ...vllm, apiKey: SECRET },
        as('server_unreachable', /TLS.*(SELF_SIGNED|self-signed|UNABLE_TO_VERIFY)/),
      ],
    ]
  }

  it('is refused with the reason, and nothing is stored', async () => {
    for (const [what, fields, refusal] of await unusable()) {
      await refused(fields, refusal).catch((error: Error) => {
        throw new Error(`${what}: ${error.message}`)
      })
    }
  })

  it('is kept as unreachable on request, and ready once it is valid', async () => {
    for (const [what, fields, { reason }] of await unusable()) {
      const kept = await register('kept', '', { ...fields, ifUnreachable: 'keep' })
      expect(kept, what).toMatchObject({
        state: 'unreachable',
        stateCause: expect.stringMatching(/\w+ \w+/),
      })
      const { events } = await service.api.servers.get.query({ name: 'kept' })
      expect(events[0]!.evidence).toMatchObject({ reason })
      await service.api.servers.remove.mutate({ name: 'kept' })
    }
    const locked = await simulated({ apiKey: SECRET })
    const fields = { engine: 'vllm', model: 'simulated-rm', ifUnreachable: 'keep' } as const
    expect(await register('kept', locked.url, fields)).toMatchObject({ state: 'unreachable' })
    const right = await service.api.servers.update.mutate({ name: 'kept', apiKey: SECRET })
    expect(right).toMatchObject({ state: 'ready' })
  })
})

it('a server’s key is in no answer, event or log, even if the server repeats it', async () => {
  const echo = await FakeServer.start((call, res) => {
    res.writeHead(call.path === '/v1/models' ? 503 : 500, { 'content-type': 'application/json' })
    res.end(JSON.stringify({ error: { message: `no: ${call.headers.authorization}` } }))
  })
  servers.push(echo)
  const rm = await simulated({ apiKey: SECRET })
  const answers: string[] = []
  const call = async (path: string, body: object) => {
    answers.push((await service.post(path, JSON.stringify(body))).text)
  }
  const named = { engine: 'vllm', model: 'simulated-rm', apiKey: SECRET }
  await call('servers.register', { name: 'new', url: echo.url, ...named })
  await call('servers.register', { name: 'echo', url: echo.url, ...named, ifUnreachable: 'keep' })
  await call('servers.register', { name: 'rm', url: rm.url, ...named })
  await rm.die()
  for (const name of ['echo', 'rm']) {
    for (const what of ['probe', 'sleep', 'wake', 'update']) {
      await call(`servers.${what}`, { name })
    }
  }
  for (const path of ['servers.list', 'servers.monitors', 'overview.get']) {
    answers.push((await service.raw(`/api/trpc/${path}`)).text)
  }
  for (const name of ['echo', 'rm']) {
    const input = encodeURIComponent(JSON.stringify({ name }))
    answers.push((await service.raw(`/api/trpc/servers.get?input=${input}`)).text)
  }
  answers.push((await service.raw('/metrics')).text)
  expect(answers.filter((text) => text.includes(SECRET))).toEqual([])
  expect(answers.join()).toContain(echo.url)
  const stored = await service.sql<{ text: string }>(
    `select row_to_json(e)::text as text from server_event e
     union all select to_jsonb(s)::text from server s`,
  )
  expect(stored.length).toBeGreaterThan(4)
  expect(stored.filter(({ text }) => text.includes(SECRET))).toEqual([])
  expect(stored.filter(({ text }) => text.includes('"sealed:v1:')).length).toBeGreaterThan(0)
  expect(service.log.lines.filter((line) => line.raw.includes(SECRET))).toEqual([])
})
