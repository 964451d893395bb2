import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { request } from 'undici'
import { afterEach, describe, expect, test } from 'vitest'
import { probeServer } from '../../server/engines/probe.ts'
import { delayOfDraw, PLAIN_BEHAVIOUR } from './behaviour.ts'
import { rawScore, tailHash } from './score.ts'
import { type ReferenceRm, type ReferenceRmOptions, startReferenceRm } from './server.ts'

let rm: ReferenceRm | undefined
afterEach(async () => {
  await rm?.close()
  rm = undefined
})

async function start(options?: ReferenceRmOptions): Promise<ReferenceRm> {
  rm = await startReferenceRm(options)
  return rm
}

async function post(body: unknown, path = '/classify', type = 'application/json') {
  const {
    statusCode,
    headers,
    body: answer,
  } = await request(`${rm?.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': type },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await answer.text()
  return { status: statusCode, headers, text, json: () => JSON.parse(text) }
}

/** A request that is only ever ended by its signal. */
function send(signal: AbortSignal) {
  return request(`${rm?.url}/classify`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ messages }),
    signal,
  })
}

const prompt = 'What is 6 times 7?'
const response = '6 * 7 = 42\n#### 42'
const messages = [
  { role: 'user', content: prompt },
  { role: 'assistant', content: response },
]

describe('/classify', () => {
  test('the raw score only for use_activation: false, else its sigmoid', async () => {
    await start()
    const raw = rawScore(prompt, response)
    const prob = async (extra: object) =>
      (await post({ model: 'reference-rm', messages, ...extra })).json().data[0].probs[0]
    expect(await prob({ use_activation: false })).toBe(raw)
    for (const extra of [
      {},
      { use_activation: null },
      { use_activation: true },
      { activation: false },
    ]) {
      expect(await prob(extra)).toBeCloseTo(1 / (1 + Math.exp(-raw)), 12)
    }
  })

  test('vLLM’s answer, one entry a text and in order', async () => {
    await start()
    const input = [`${prompt}\n${response}`, `${prompt}\nno idea`, `${prompt}\n${response}`]
    const answer = (await post({ input, use_activation: false })).json()
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^classify-/),
      object: 'list',
      created: expect.any(Number),
      model: 'reference-rm',
      usage: { prompt_tokens: expect.any(Number), completion_tokens: 0 },
    })
    expect(answer.data).toHaveLength(3)
    expect(answer.data[0]).toEqual({
      index: 0,
      label: 'LABEL_0',
      probs: [rawScore(prompt, response)],
      num_classes: 1,
    })
    expect(answer.data[2].probs).toEqual(answer.data[0].probs)
    expect(answer.data[1].probs[0]).toBeLessThan(answer.data[0].probs[0])
  })

  test('refusals in vLLM’s shape', async () => {
    await start({ maxModelLen: 100 })
    const cases: [unknown, number, string][] = [
      ['{', 400, 'JSON decode error'],
      [[], 400, 'valid dictionary'],
      [{}, 400, '`input` or `messages`'],
      [{ input: [1, 2, 3] }, 400, 'no tokenizer'],
      [{ input: '', normalize: false }, 400, 'use `use_activation`'],
      [{ input: '', use_activation: 'no' }, 400, 'valid boolean'],
      [{ model: 'other', input: '' }, 404, 'The model `other` does not exist.'],
      [{ input: 'x'.repeat(401) }, 400, "This model's maximum context length is 100 tokens"],
      [{ messages: [{ role: 'user', content: 7 }] }, 400, 'messages'],
    ]
    for (const [body, status, message] of cases) {
      const answer = await post(body)
      expect(answer.status, message).toBe(status)
      const { error } = answer.json()
      expect(error.message).toContain(message)
      expect(error).toMatchObject({ type: expect.any(String), code: status })
    }
    expect((await post('{}', '/classify', 'text/plain')).status).toBe(400)
    expect((await post({}, '/pooling')).status).toBe(404)
    expect(rm?.counters()).toMatchObject({ refused: cases.length + 1, inFlight: 0 })
  })

  test('truncate_prompt_tokens cuts instead of refusing', async () => {
    await start({ maxModelLen: 100 })
    const answer = await post({ input: 'x'.repeat(5000), truncate_prompt_tokens: -1 })
    expect(answer.json().usage.prompt_tokens).toBe(100)
  })
})

test('the project’s own probe takes it for vLLM', async () => {
  const { url } = await start({ maxModelLen: 4096 })
  expect(await probeServer({ url, engine: 'auto', apiKey: null, timeoutMs: 5000 })).toMatchObject({
    ok: true,
    engine: 'vllm',
    kind: 'discriminative',
    model: 'reference-rm',
    maxModelLen: 4096,
    version: expect.stringMatching(/^0\.29\.0/),
  })
  const models = await request(`${url}/v1/models`)
  expect(await models.body.text()).toContain('no neural network')
})

describe('control', () => {
  test('changes are made while running, wrong ones refused', async () => {
    await start()
    expect(
      (await post({ score: 'constant', seed: 7 }, '/__control')).json().behaviour,
    ).toMatchObject({
      score: 'constant',
      seed: 7,
    })
    const scored = await post({ messages, use_activation: false })
    expect(scored.json().data[0].probs).toEqual([0.5])
    for (const wrong of [
      '{',
      { delay: 'uniform:5,1' },
      { faultShare: 2 },
      { fault: 'x' },
      { colour: 1 },
    ]) {
      expect((await post(wrong, '/__control')).status).toBe(400)
    }
  })

  test('concurrency: the others wait in line; a client that goes frees its place', async () => {
    await start({ behaviour: { concurrency: 2, delay: { fromMs: 3_000_000, toMs: 3_000_000 } } })
    const goes = new AbortController()
    const held = [0, 1].map(() => send(goes.signal))
    await expect.poll(() => rm?.counters()).toMatchObject({ inFlight: 2, waiting: 0 })
    await post({ delayMs: 0 }, '/__control')
    const others = Array.from({ length: 5 }, () => post({ messages }))
    await expect.poll(() => rm?.counters()).toMatchObject({ inFlight: 7, waiting: 5 })
    goes.abort()
    expect((await Promise.allSettled(held)).map((h) => h.status)).toEqual(['rejected', 'rejected'])
    expect((await Promise.all(others)).map((a) => a.status)).toEqual([200, 200, 200, 200, 200])
    await expect
      .poll(() => rm?.counters())
      .toMatchObject({ inFlight: 0, waiting: 0, answered: 5, aborted: 2, maxWorking: 2 })
  })
})

describe('faults', () => {
  const faults: [string, (answer: Awaited<ReturnType<typeof post>>) => void][] = [
    ['nan', (a) => expect(a.text).toContain('"probs":[NaN]')],
    ['null', (a) => expect(a.json().data[0].probs).toEqual([null])],
    ['html', (a) => expect(a.text).toContain('<!doctype html>')],
    ['redirect', (a) => expect([a.status, a.headers.location]).toEqual([307, '/somewhere-else'])],
    ['status:503', (a) => expect([a.status, a.json().error.code]).toEqual([503, 503])],
  ]
  test.each(faults)('%s', async (fault, check) => {
    await start()
    await post({ fault }, '/__control')
    check(await post({ messages }))
    await post({ fault: 'none' }, '/__control')
    expect((await post({ messages })).json().data).toHaveLength(1)
  })

  test('drop cuts the connection; hang holds it', async () => {
    await start()
    await post({ fault: 'drop' }, '/__control')
    await expect(post({ messages })).rejects.toThrow()
    await post({ fault: 'hang' }, '/__control')
    const goes = new AbortController()
    const hanging = send(goes.signal)
    await expect.poll(() => rm?.counters().faults).toBe(2)
    goes.abort()
    await expect(hanging).rejects.toThrow()
  })

  test('a share of the requests; by text the same ones every time', async () => {
    await start({
      behaviour: { fault: { kind: 'status', status: 500 }, faultShare: 0.5, faultBy: 'text' },
    })
    const round = () =>
      Promise.all(
        Array.from({ length: 40 }, async (_, i) => (await post({ input: `response ${i}` })).status),
      )
    const first = await round()
    expect(new Set(first)).toEqual(new Set([200, 500]))
    expect(await round()).toEqual(first)
  })
})

test('delays follow from the text and the seed, and are spread as asked', () => {
  const behaviour = {
    ...PLAIN_BEHAVIOUR,
    delay: { fromMs: 100, toMs: 4000 },
    slowShare: 0.005,
    slowMs: 30_000,
  }
  const draws = Array.from({ length: 20_000 }, (_, i) => tailHash(`response ${i}`))
  const delays = draws.map((draw) => delayOfDraw(behaviour, draw))
  expect(delays).toEqual(draws.map((draw) => delayOfDraw(behaviour, draw)))
  const slow = delays.filter((ms) => ms === 30_000).length
  expect(slow).toBeGreaterThan(60)
  expect(slow).toBeLessThan(140)
  const usual = delays.filter((ms) => ms !== 30_000)
  expect(Math.min(...usual)).toBeGreaterThanOrEqual(100)
  expect(Math.max(...usual)).toBeLessThanOrEqual(4000)
  expect(usual.reduce((sum, ms) => sum + ms, 0) / usual.length).toBeCloseTo(2050, -2)
  expect(draws.map((draw) => delayOfDraw({ ...behaviour, seed: 2 }, draw))).not.toEqual(delays)
})

describe('the command', () => {
  const children: ChildProcess[] = []
  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
  })
  function run(...options: string[]): ChildProcess {
    const child = spawn(process.execPath, ['testkit/reference-rm/main.ts', ...options])
    children.push(child)
    return child
  }

  test('prints its address and what it is, and ends with its standard input', async () => {
    const child = run('--port', '0', '--exit-with-stdin', '--delay', 'uniform:1,2', '--seed', '9')
    const [line] = await once(createInterface({ input: child.stdout! }), 'line')
    const told = JSON.parse(line)
    expect(told).toMatchObject({
      pid: child.pid,
      what: expect.stringContaining('no neural network'),
    })
    const settings = await (await request(`${told.url}/__control`)).body.json()
    expect(settings).toMatchObject({ behaviour: { delay: { fromMs: 1, toMs: 2 }, seed: 9 } })
    child.stdin?.end()
    expect((await once(child, 'exit'))[0]).toBe(0)
  })

  test('a wrong option is named', async () => {
    const child = run('--delay', 'soon')
    let said = ''
    child.stderr?.on('data', (chunk) => {
      said += chunk
    })
    expect((await once(child, 'close'))[0]).toBe(1)
    expect(said).toContain('uniform:100,4000')
  })
})
