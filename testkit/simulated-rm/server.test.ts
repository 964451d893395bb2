import { once } from 'node:events'
import { connect } from 'node:net'
import { Agent, request } from 'undici'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { openFetch } from '../../server/engines/engine-fetch.ts'
import { engineOf } from '../../server/engines/registry.ts'
import { startSimulatedServers } from '../processes/simulated-rm.ts'
import { featureLogit } from './features.ts'
import { latencyOfText } from './latency.ts'
import type { ServerOptionsInput } from './options.ts'
import { SimulatedServer } from './server.ts'
import { ask, askJson, scoreBy } from './testing/ask.ts'
import { logitOf, textId } from './text.ts'

const started: SimulatedServer[] = []
async function start(options: ServerOptionsInput = {}): Promise<SimulatedServer> {
  const server = await SimulatedServer.start({ healthDelayMs: 0, ...options })
  started.push(server)
  return server
}
afterEach(() => Promise.all(started.splice(0).map((server) => server.close())))

/** Sends a text without waiting. `outcome` resolves to the status, or the error's code. */
function send(server: SimulatedServer, text: string) {
  const gone = new AbortController()
  const outcome = ask(server, '/classify', { input: text }, { signal: gone.signal }).then(
    (answer) => answer.status,
    (error: NodeJS.ErrnoException) => error.code ?? error.name,
  )
  return { outcome, abort: () => gone.abort() }
}
const inFlight = (server: SimulatedServer, texts: number) =>
  vi.waitUntil(() => server.stats().textsInFlight === texts, { interval: 2, timeout: 20_000 })
const FOREVER = { latency: 'constant:3600000' }

describe('records', () => {
  test('texts are recorded with id, times and outcome, and calls are counted by route and status', async () => {
    const server = await start()
    await scoreBy('vllm', server, { prompt: 'Q', response: 'A' })
    await ask(server, '/classify', { input: ['Q\nA', 'Q\nB'] })
    server.control({ faults: { error500: 1 } })
    await ask(server, '/classify', { input: 'Q\nC' })
    const { texts, calls, textsTotal, tokensDone, faults } = server.stats()
    expect(texts.map((text) => text.id)).toEqual(
      ['A', 'A', 'B', 'C'].map((response) => textId('Q', response)),
    )
    expect(texts.map((text) => text.outcome)).toEqual([
      'answered',
      'answered',
      'answered',
      'refused',
    ])
    for (const text of texts) expect(text.endedAtMs).toBeGreaterThanOrEqual(text.atMs)
    expect(calls['POST /classify']).toEqual({ 200: 2, 500: 1 })
    expect(textsTotal).toBe(4)
    expect(tokensDone).toBe(3)
    expect(faults).toEqual({ error500: 1 })
    server.control({ resetStats: true })
    expect(server.stats()).toMatchObject({ texts: [], calls: {}, textsTotal: 0 })
  })

  test('a disconnected client frees its slot and is counted', async () => {
    const server = await start({ ...FOREVER, running: 1 })
    const first = send(server, 'first')
    const second = send(server, 'second')
    await inFlight(server, 2)
    const load = async () => {
      const { text } = await ask(server, '/metrics')
      return ['running', 'waiting'].map((what) => new RegExp(`${what}{.*} (.*)`).exec(text)?.[1])
    }
    expect(await load()).toEqual(['1', '1'])
    first.abort()
    second.abort()
    await inFlight(server, 0)
    expect(server.stats()).toMatchObject({ aborted: 2, inFlight: 0, maxTextsInFlight: 2 })
    expect(await load()).toEqual(['0', '0'])
  })

  test('the metrics count the tokens of cached prompts', async () => {
    const server = await start({ prefixGroups: 1 })
    for (const prompt of ['one', 'one', 'two', 'one']) {
      await ask(server, '/score', { queries: prompt, documents: 'answer' })
    }
    const { text } = await ask(server, '/metrics')
    expect(text).toMatch(/prefix_cache_queries_total\{[^}]*\} 4\n/)
    expect(text).toMatch(/prefix_cache_hits_total\{[^}]*\} 1\n/)
  })

  test('a server refuses texts beyond its queue', async () => {
    const server = await start({ ...FOREVER, maxQueued: 2 })
    const sent = ['a', 'b'].map((text) => send(server, text))
    await inFlight(server, 2)
    const answer = await askJson(server, '/classify', { input: 'c' }, 503)
    expect(answer).toMatchObject({ error: { type: 'QueueOverflowError', code: 503 } })
    for (const { abort } of sent) abort()
  })
})

describe('faults', () => {
  test('a fault strikes its share of the requests, and the same requests for the same seed', async () => {
    const outcomes = async () => {
      const server = await start({ seed: 7, faults: { error500: 0.3 } })
      const statuses: number[] = []
      for (let i = 0; i < 200; i++) {
        statuses.push((await ask(server, '/classify', { input: `text ${i}` })).status)
      }
      return statuses
    }
    const first = await outcomes()
    const struck = first.filter((status) => status === 500).length
    expect(struck).toBeGreaterThan(40)
    expect(struck).toBeLessThan(80)
    expect(await outcomes()).toEqual(first)
  })

  test('a refusal states its retry delay in the configured form', async () => {
    const server = await start()
    const headers = async (retryAfter: 'none' | 'seconds' | 'date' | 'ms' | 'x-ms') => {
      server.control({ faults: { full503: { share: 1, retryAfter, retryAfterMs: 60_000 } } })
      return (await ask(server, '/classify', { input: 'x' })).headers
    }
    expect((await headers('none'))['retry-after']).toBeUndefined()
    expect((await headers('seconds'))['retry-after']).toBe('60')
    const untilMs = Date.parse(String((await headers('date'))['retry-after'])) - Date.now()
    expect(untilMs).toBeGreaterThan(30_000)
    expect((await headers('ms'))['retry-after-ms']).toBe('60000')
    expect((await headers('x-ms'))['x-ms-retry-after-ms']).toBe('60000')
  })

  test('an answer that is cut half-way is a connection error', async () => {
    const server = await start({ faults: { dieMidBody: 1 } })
    expect(await send(server, 'x').outcome).not.toBe(200)
    expect(server.stats().texts[0]?.outcome).toBe('cut')
  })

  test('a request is cut without an answer, or redirected', async () => {
    const server = await start({ faults: { drop: 1 } })
    expect(await send(server, 'x').outcome).toBe('UND_ERR_SOCKET')
    expect(server.counters()).toMatchObject({ requests: 1, answered: 0, faults: { drop: 1 } })
    server.control({ faults: { drop: 0, redirect: 1 } })
    const { status, headers } = await ask(server, '/classify', { input: 'x' })
    expect([status, headers.location]).toEqual([307, '/somewhere-else'])
  })

  test('a hanging request gets no answer, and after `hangAfterTexts` no request does', async () => {
    const server = await start({ faults: { hang: 1 } })
    const sent = send(server, 'x')
    await inFlight(server, 1)
    server.control({ faults: null })
    expect((await ask(server, '/classify', { input: 'y' })).status).toBe(200)
    sent.abort()
    server.control({ hangAfterTexts: 3 })
    for (const text of ['1', '2']) expect(await send(server, text).outcome).toBe(200)
    const third = send(server, '3')
    await vi.waitUntil(() => server.stats().state === 'hanging', { interval: 2 })
    const fourth = send(server, '4')
    expect((await ask(server, '/health')).status).toBe(200)
    await inFlight(server, 2)
    server.control({ hangAfterTexts: null })
    expect(await third.outcome).toBe(200)
    expect(await fourth.outcome).toBe(200)
  })

  test('a dead server refuses connections, and revives on its port with nothing in flight', async () => {
    const server = await start(FOREVER)
    const { url } = server
    const sent = send(server, 'x')
    await inFlight(server, 1)
    server.control({ die: {} })
    expect(await sent.outcome).toBe('UND_ERR_SOCKET')
    expect(await send(server, 'y').outcome).toBe('ECONNREFUSED')
    expect(server.stats()).toMatchObject({ state: 'down', textsInFlight: 0 })
    server.control({ revive: true, latency: '0' })
    await vi.waitUntil(() => server.stats().state === 'up', { interval: 2 })
    expect(server.url).toBe(url)
    expect((await ask(server, '/classify', { input: 'z' })).status).toBe(200)
    server.control({ die: { forMs: 20 } })
    expect(server.stats().state).toBe('down')
    await vi.waitUntil(() => server.stats().state === 'up', { interval: 2 })
  })

  test('idle connections are closed after the configured time, active connections are not', async () => {
    const server = await start({ idleCloseMs: 30, latency: 'constant:90' })
    const agent = new Agent({ connections: 1, keepAliveTimeout: 60_000 })
    const post = { method: 'POST', body: '{"input":"x"}', dispatcher: agent } as const
    const headers = { 'content-type': 'application/json' }
    const response = await request(`${server.url}/classify`, { ...post, headers })
    expect(response.statusCode).toBe(200)
    expect(response.headers['keep-alive']).toBeUndefined()
    await response.body.dump()
    await vi.waitUntil(() => server.stats().connections === 0, { interval: 2 })
    const socket = connect(server.port, '127.0.0.1').resume()
    await once(socket, 'end')
    await agent.close()
  })

  test('load metrics can be false or missing', async () => {
    const server = await start()
    const values = async () => (await ask(server, '/load')).text
    for (const [metrics, load] of [
      ['negative', -2],
      ['zero', 0],
      ['absurd', 2e9],
    ] as const) {
      server.control({ metrics })
      expect(JSON.parse(await values())).toEqual({ server_load: load })
    }
    server.control({ metrics: 'missing' })
    expect((await ask(server, '/metrics')).status).toBe(404)
  })

  test('unknown settings are refused by `control` and by `/__control`', async () => {
    const server = await start()
    expect(() => server.control({ faults: { nonsense: 1 } } as never)).toThrow()
    expect((await ask(server, '/__control', { speeed: 2 })).status).toBe(400)
    expect((await ask(server, '/__control', { speed: 0.35 })).status).toBe(200)
    expect(await askJson(server, '/__control')).toMatchObject({ settings: { speed: 0.35 } })
  })
})

describe('scores', () => {
  const samples = ['6 * 7 = 42\n#### 42', 'no idea'].map((response) => ({
    prompt: 'What is 6 * 7?',
    response,
  }))
  const scores = (server: SimulatedServer) =>
    Promise.all(
      samples.map(async (sample) => {
        const score = await scoreBy('vllm', server, sample, { version: '0.20.0' })
        return score.ok ? score.score : null
      }),
    )

  test('a score comes from the hash of the text, the linear model, or a constant', async () => {
    const server = await start()
    const ids = samples.map(({ prompt, response }) => textId(prompt, response))
    expect(await scores(server)).toEqual(ids.map((id) => logitOf(id, 1)))
    server.control({ score: 'features' })
    expect(await scores(server)).toEqual(
      samples.map(({ prompt, response }) => featureLogit(prompt, response)),
    )
    server.control({ faults: { drift: { share: 1, weights: 3 } } })
    expect(await scores(server)).toEqual(ids.map((id) => logitOf(id, 3)))
    server.control({ faults: null, score: 'constant' })
    expect(await scores(server)).toEqual([0.5, 0.5])
  })
})

describe('drawn by the text', () => {
  test('a fault strikes the same texts every time', async () => {
    const server = await start({ drawBy: 'text', faults: { error500: 0.5 } })
    const round = () =>
      Promise.all(
        Array.from({ length: 40 }, async (_, i) => {
          return (await ask(server, '/classify', { input: `response ${i}` })).status
        }),
      )
    const first = await round()
    expect(new Set(first)).toEqual(new Set([200, 500]))
    expect(await round()).toEqual(first)
  })

  test('latencies follow from the text and the seed, with the configured spread', () => {
    const latency = { kind: 'uniform', fromMs: 100, toMs: 4000 } as const
    const settings = { latency, slowShare: 0.005, slowMs: 30_000, seed: 1 }
    const ids = Array.from({ length: 20_000 }, (_, i) => textId('', `response ${i}`))
    const latencies = ids.map((id) => latencyOfText(settings, id))
    expect(latencies).toEqual(ids.map((id) => latencyOfText(settings, id)))
    const slow = latencies.filter((ms) => ms === 30_000).length
    expect(slow).toBeGreaterThan(60)
    expect(slow).toBeLessThan(140)
    const usual = latencies.filter((ms) => ms !== 30_000)
    expect(Math.min(...usual)).toBeGreaterThanOrEqual(100)
    expect(Math.max(...usual)).toBeLessThanOrEqual(4000)
    expect(usual.reduce((sum, ms) => sum + ms, 0) / usual.length).toBeCloseTo(2050, -2)
    expect(ids.map((id) => latencyOfText({ ...settings, seed: 2 }, id))).not.toEqual(latencies)
  })
})

describe('sleep', () => {
  const lifecycleOf = (name: 'vllm' | 'sglang') => {
    const { lifecycle } = engineOf(name)
    if (lifecycle === null) throw new Error(`${name} has no lifecycle`)
    return lifecycle
  }

  test('vllm finishes requests in flight, then queues requests until it wakes', async () => {
    const server = await start({ latency: 'constant:500' })
    const before = send(server, 'before')
    await inFlight(server, 1)
    const { fetch, close } = openFetch(server.url, null, { timeoutMs: 10_000 })
    await lifecycleOf('vllm').sleep(fetch, '', 1)
    expect(await before.outcome).toBe(200)
    expect(await lifecycleOf('vllm').isSleeping(fetch, '')).toBe(true)
    expect((await ask(server, '/health')).status).toBe(200)
    const during = send(server, 'during')
    await inFlight(server, 1)
    await lifecycleOf('vllm').wake(fetch, '')
    expect(await during.outcome).toBe(200)
    expect(await lifecycleOf('vllm').isSleeping(fetch, '')).toBe(false)
    expect(server.stats().lifecycle).toMatchObject([
      { route: 'POST /sleep', inFlight: 1 },
      { route: 'POST /wake_up', inFlight: 1 },
    ])
    close()
  })

  test('vllm aborts by default: pooling answers 500, a judge 200 with an aborted reply', async () => {
    const server = await start(FOREVER)
    const sent = send(server, 'x')
    await inFlight(server, 1)
    expect((await ask(server, '/sleep', {})).status).toBe(200)
    expect(await sent.outcome).toBe(500)
    const judge = await start({ serves: 'generate', tokenDelayMs: 60_000 })
    const chat = { messages: [{ role: 'user', content: 'x' }] }
    const reply = askJson<{ choices: { finish_reason: string }[] }>(
      judge,
      '/v1/chat/completions',
      chat,
    )
    await inFlight(judge, 1)
    await ask(judge, '/sleep?level=1', {})
    expect((await reply).choices[0]?.finish_reason).toBe('abort')
  })

  test('weights and KV cache wake separately, and level 2 loses the weights until they are reloaded', async () => {
    const server = await start()
    const score = () => scoreBy('vllm', server, { prompt: 'Q', response: 'A' })
    const right = await score()
    await ask(server, '/sleep?level=2&mode=wait', {})
    await ask(server, '/wake_up?tags=weights', {})
    expect(await askJson(server, '/is_sleeping')).toEqual({ is_sleeping: true })
    await ask(server, '/wake_up?tags=kv_cache', {})
    expect(await askJson(server, '/is_sleeping')).toEqual({ is_sleeping: false })
    expect(await score()).not.toEqual(right)
    await ask(server, '/collective_rpc', { method: 'reload_weights' })
    expect(await score()).toEqual(right)
  })

  test('sglang releases memory if it is idle, and dies otherwise', async () => {
    const server = await start({ dialect: 'sglang' })
    const { fetch, close } = openFetch(server.url, null, { timeoutMs: 10_000 })
    await lifecycleOf('sglang').sleep(fetch, '', 1)
    await lifecycleOf('sglang').wake(fetch, '')
    server.control({ latency: 'constant:3600000' })
    const gone = new AbortController()
    const { signal } = gone
    const request = ask(server, '/v1/embeddings', { input: 'x' }, { signal }).catch(() => 'cut')
    await inFlight(server, 1)
    await expect(lifecycleOf('sglang').sleep(fetch, '', 1)).rejects.toThrow()
    expect(await request).toBe('cut')
    expect(server.stats()).toMatchObject({ state: 'down' })
    expect(server.stats().lifecycle.map((call) => call.inFlight)).toEqual([0, 0, 1])
    close()
  })

  test('a server put to sleep by `control` accepts requests and answers them after waking', async () => {
    const server = await start()
    server.control({ asleep: true })
    const sent = send(server, 'x')
    await inFlight(server, 1)
    expect(server.stats().state).toBe('asleep')
    server.control({ asleep: false })
    expect(await sent.outcome).toBe(200)
  })
})

test('the control URL reaches every server of a process, including dead servers', async () => {
  await expect(startSimulatedServers(['--latency', 'soon'])).rejects.toThrow('exit code 1')
  const servers = await startSimulatedServers(['--servers', '3', '--faults', '{"error500":1}'])
  try {
    expect(new Set(servers.urls).size).toBe(3)
    await servers.control({ faults: null }, 1)
    const statuses = await Promise.all(
      servers.urls.map(async (url) => (await ask({ url }, '/classify', { input: 'x' })).status),
    )
    expect(statuses).toEqual([500, 200, 500])
    await servers.control({ die: {} }, 2)
    await servers.control({ faults: null })
    expect((await servers.stats()).map((stats) => stats.state)).toEqual(['up', 'up', 'down'])
    await servers.control({ revive: true }, 2)
    await vi.waitUntil(async () => (await servers.stats())[2]?.state === 'up')
    expect(
      (await ask({ url: servers.urls[2] as string }, '/classify', { input: 'x' })).status,
    ).toBe(200)
    expect(await servers.counters(1)).toMatchObject({ requests: 1, answered: 1, inFlight: 0 })
    await expect(servers.control({ running: 0 })).rejects.toThrow('running')
  } finally {
    await servers.stop()
  }
})
