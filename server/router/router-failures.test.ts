import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { FULL } from '../../testkit/service/full-run.ts'
import {
  answer,
  type FakeHandler,
  hangs,
  scoreBody,
  scores,
} from '../engines/testing/fake-server.ts'
import type { RouterEvent } from './router-types.ts'
import { config, Harness, until } from './testing/harness.ts'

/**
 * Indexes into the flags of {@link AnsweringThread}: requests received and answered since `hold`, and whether the
 * thread may answer.
 */
const [RECEIVED, ANSWERED, MAY_ANSWER] = [0, 1, 2] as const

/** An SGLang server in its own thread, which can answer while this thread is paused. */
class AnsweringThread {
  readonly flags: Int32Array
  readonly url: string
  readonly #thread: Worker

  private constructor(thread: Worker, flags: Int32Array, port: number) {
    this.#thread = thread
    this.flags = flags
    this.url = `http://127.0.0.1:${port}`
  }

  static async start(): Promise<AnsweringThread> {
    const flags = new Int32Array(new SharedArrayBuffer(12))
    flags[MAY_ANSWER] = 1
    const code = `
      const { createServer } = require('node:http')
      const { parentPort, workerData: flags } = require('node:worker_threads')
      const server = createServer((request, response) => {
        let body = ''
        request.on('data', (chunk) => { body += chunk })
        request.on('end', () => {
          Atomics.add(flags, ${RECEIVED}, 1)
          Atomics.notify(flags, ${RECEIVED})
          Atomics.wait(flags, ${MAY_ANSWER}, 0)
          const texts = [JSON.parse(body).input].flat()
          const data = texts.map((_, index) => ({ index, embedding: [1] }))
          response.on('finish', () => {
            Atomics.add(flags, ${ANSWERED}, 1)
            Atomics.notify(flags, ${ANSWERED})
          })
          response.setHeader('content-type', 'application/json')
          response.end(JSON.stringify({ data, usage: { prompt_tokens: texts.length } }))
        })
      })
      server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))`
    const thread = new Worker(code, { eval: true, workerData: flags })
    const [port] = (await once(thread, 'message')) as [number]
    return new AnsweringThread(thread, flags, port)
  }

  /** Makes the next requests wait, and resets the counts. */
  hold(): void {
    this.flags.fill(0)
  }

  async end(): Promise<void> {
    Atomics.store(this.flags, MAY_ANSWER, 1)
    Atomics.notify(this.flags, MAY_ANSWER)
    await this.#thread.terminate()
  }
}

let harness: Harness
beforeEach(() => {
  harness = new Harness({ ejectionStepMs: 100 })
})
afterEach(() => harness.close())

const fails = answer(500, { error: { message: 'engine died' } })
const nan = answer(200, scoreBody('vllm', 'NaN'), { 'content-type': 'application/json' })
const page = answer(200, '<html><title>Sign in</title></html>', { 'content-type': 'text/html' })
const failsFirst = (times: number, failing: FakeHandler): FakeHandler => {
  let left = times
  return (call, response) => (left-- > 0 ? failing : scores(1))(call, response)
}

describe('a fault', () => {
  test('is retried immediately on an untried server', async () => {
    await harness.serve([fails, scores(2)])
    const result = await harness.score()
    expect(result).toMatchObject({ ok: true, score: 2, serverId: 2 })
    expect(result.attempts).toMatchObject([
      { serverId: 1, attempt: 1, outcome: 'fault', reason: 'transport', status: 500 },
      { serverId: 2, attempt: 2, outcome: 'ok', backoffMs: 0 },
    ])
    expect(result.attempts[0]?.detail).toContain('engine died')
    expect(harness.stats(1)).toMatchObject({ errors: 1, retries: 0 })
    expect(harness.stats(2)).toMatchObject({ errors: 0, retries: 1 })
  })

  test('makes the sample wait for a full untried server instead of returning to the first', async () => {
    let finish = () => {}
    const held: FakeHandler = (call, response) => {
      finish = () => scores(2)(call, response)
    }
    const [a, b] = await harness.serve([fails, held], 1)
    const first = harness.score()
    const second = harness.score()
    await until(() => b?.calls.length === 1 && harness.stats(1).waiting === 1)
    expect(a?.calls).toHaveLength(1)
    if (b) b.handler = scores(2)
    finish()
    for (const result of await Promise.all([first, second])) {
      expect(result).toMatchObject({ ok: true, score: 2 })
    }
    expect(a?.calls).toHaveLength(1)
  })

  test('makes the sample wait for an untried server only until its patience ends', async () => {
    harness = new Harness({ ejectionStepMs: 100, patienceMs: 30 })
    const [a, b] = await harness.serve([failsFirst(1, fails), hangs], 1)
    const controller = new AbortController()
    const first = harness.score()
    const second = harness.score({ signal: controller.signal })
    // The first sample failed on s1 while the second occupies s2 indefinitely.
    expect(await first).toMatchObject({ ok: true, serverId: 1 })
    expect([a?.calls.length, b?.calls.length]).toEqual([2, 1])
    controller.abort()
    await second
  })

  test('ends the sample after maxAttempts calls', async () => {
    const [a, b, c] = await harness.serve([fails, fails, fails])
    const result = await harness.score({ maxAttempts: 3 })
    expect(result).toMatchObject({ ok: false, reason: 'transport' })
    expect(result.attempts.map((attempt) => attempt.attempt)).toEqual([1, 2, 3])
    expect([a?.calls.length, b?.calls.length, c?.calls.length]).toEqual([1, 1, 1])
  })

  test('is retried on a single server after a back-off', async () => {
    await harness.serve([failsFirst(2, fails)])
    const result = await harness.score()
    expect(result).toMatchObject({ ok: true, score: 1 })
    expect(result.attempts).toHaveLength(3)
    for (const attempt of result.attempts.slice(1)) expect(attempt.backoffMs).toBeGreaterThan(0)
  })

  test('a refused connection, an incomplete answer and a closed connection are faults', async () => {
    const [a, b, c, d] = await harness.serve([
      scores(1),
      (_call, response) => {
        response.writeHead(200, { 'content-length': '1000' })
        response.write('{"data":')
        setImmediate(() => response.destroy())
      },
      (_call, response) => response.destroy(),
      scores(4),
    ])
    await a?.close()
    const result = await harness.score()
    expect(result).toMatchObject({ ok: true, score: 4 })
    expect(result.attempts.map(({ outcome, reason }) => [outcome, reason])).toEqual([
      ['fault', 'transport'],
      ['fault', 'transport'],
      ['fault', 'transport'],
      ['ok', null],
    ])
    expect(result.attempts[0]?.detail).toContain('ECONNREFUSED')
    expect([b?.calls.length, c?.calls.length, d?.calls.length]).toEqual([1, 1, 1])
  })

  test.each([
    ['', ''],
    [' where the detail is cut', 'x'.repeat(250)],
  ])('its detail does not contain the API key%s', async (_, before) => {
    const fake = await harness.fake((call, response) =>
      answer(500, { error: { message: `${before} bad header ${call.headers.authorization}` } })(
        call,
        response,
      ),
    )
    harness.router.setServers([config(1, fake.url, { apiKey: 'sk-very-secret-of-this-server' })])
    harness.router.setSlots(1, 1)
    const events: RouterEvent[] = []
    harness.router.onEvent((event) => events.push(event))
    const results = await Promise.all(
      Array.from({ length: 6 }, () => harness.score({ maxAttempts: 1, timeoutMs: 2_000 })),
    )
    expect(JSON.stringify([results, events])).not.toContain('sk-very')
    expect(JSON.stringify(results)).toContain('***')
    expect(events.length).toBeGreaterThan(0)
  })
})

describe('a server process that is killed', () => {
  test('fails no sample: those in flight are scored on another server', async () => {
    await harness.close()
    // Hedges are off, because during a stall of the machine they would score the samples in flight before the kill.
    harness = new Harness({ hedges: false })
    const child = fork(
      new URL('../engines/testing/fake-server-process.ts', import.meta.url).pathname,
      { execArgv: [], env: { ...process.env, FAKE_DELAY_MS: '60000' } },
    )
    try {
      const url = await new Promise<string>((resolve) => child.once('message', resolve))
      const other = await harness.fake(scores(2))
      harness.router.setServers([config(1, url), config(2, other.url)])
      harness.router.setSlots(1, 50)
      harness.router.setSlots(2, 50)
      const results = Array.from({ length: 200 }, () => harness.score())
      await until(() => harness.stats(1).inFlight === 50 && harness.stats(2).inFlight === 0)
      child.kill('SIGKILL')
      for (const result of await Promise.all(results)) {
        expect(result).toMatchObject({ ok: true, serverId: 2 })
      }
      expect(harness.stats(1).inFlight).toBe(0)
    } finally {
      child.kill('SIGKILL')
    }
  })
})

describe('after a pause of this process, an answer', () => {
  /**
   * Pauses this process for at least `forMs` while its call is in flight. The server answers during or after the pause.
   */
  async function pauseDuringCall(
    { flags }: AnsweringThread,
    forMs: number,
    when: 'meanwhile' | 'afterwards',
  ): Promise<void> {
    // After the last of these turns, the event loop runs timers first and then reads sockets.
    for (let turn = 0; turn < 4; turn++) await new Promise<void>((r) => setImmediate(r))
    const answer = () => {
      Atomics.store(flags, MAY_ANSWER, 1)
      Atomics.notify(flags, MAY_ANSWER)
    }
    Atomics.wait(flags, RECEIVED, 0, 5_000)
    if (when === 'meanwhile') {
      answer()
      Atomics.wait(flags, ANSWERED, 0, 5_000)
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs)
    if (when === 'afterwards') setTimeout(answer, 20)
  }

  test.each([
    {
      name: 'that had arrived is accepted, though the deadline has passed',
      ...{ when: 'meanwhile' as const, timeoutMs: 300, forMs: 600, samples: 1 },
    },
    {
      name: 'that had arrived does not split its micro-batch',
      ...{ when: 'meanwhile' as const, timeoutMs: 20_000, forMs: 300, samples: 4 },
    },
    {
      name: 'that is on its way does not split its micro-batch',
      ...{ when: 'afterwards' as const, timeoutMs: 20_000, forMs: 300, samples: 4 },
    },
  ])('$name', async ({ when, timeoutMs, forMs, samples }) => {
    await harness.close()
    const never = Number.POSITIVE_INFINITY
    const always = { isBusy: () => true, workMs: never, slowMs: never, splitChecks: 1 }
    harness = new Harness({ microBatching: always })
    const server = await AnsweringThread.start()
    try {
      harness.router.setServers([config(1, server.url, { engine: 'sglang' })])
      harness.router.setSlots(1, 64)
      const cleared = vi.spyOn(globalThis, 'clearInterval')
      for (let i = 0; i < 128; i++) await harness.score()
      // Without samples the router's two timers stop. They start again with the next sample.
      cleared.mockClear()
      await until(() => cleared.mock.calls.length === 2)
      server.hold()
      const results = Promise.all(
        Array.from({ length: samples }, () => harness.score({ timeoutMs, maxAttempts: 1 })),
      )
      await pauseDuringCall(server, forMs, when)
      for (const result of await results) expect(result).toMatchObject({ ok: true, score: 1 })
      expect(Atomics.load(server.flags, RECEIVED)).toBe(1)
    } finally {
      await server.end()
    }
  })
})

describe('a refused request', () => {
  test('is not retried, and 50 of them eject no server', async () => {
    const message = "This model's maximum context length is 512 tokens."
    const [a, b] = await harness.serve([
      answer(400, { error: { message } }),
      answer(400, { error: { message } }),
    ])
    const results = await Promise.all(Array.from({ length: 50 }, () => harness.score()))
    for (const result of results) {
      expect(result).toMatchObject({ ok: false, reason: 'context_exceeded' })
      expect(result.attempts).toMatchObject([{ outcome: 'client', status: 400 }])
    }
    expect((a?.calls.length ?? 0) + (b?.calls.length ?? 0)).toBe(50)
    expect(harness.stats(1)).toMatchObject({ health: 'ok', consecutiveFaults: 0 })
  })

  test('caused by a prompt of invalid shape fails with a reason, and its slot is released', async () => {
    const [fake] = await harness.serve([scores(1)], 1)
    const input = { prompt: 7, response: 'A' } as never
    expect(await harness.score({ input })).toMatchObject({ ok: false, reason: 'rejected' })
    const waiting = [harness.score(), harness.score({ input }), harness.score()]
    expect((await Promise.all(waiting)).map(({ ok }) => ok)).toEqual([true, false, true])
    expect(harness.stats().inFlight).toBe(0)
    expect(fake?.calls).toHaveLength(2)
  })

  test('caused by an invalid header is the server’s fault, not the sample’s, and throws nothing', async () => {
    const fake = await harness.fake(scores(1))
    harness.router.setServers([config(1, fake.url, { apiKey: 'two\nlines' })])
    harness.router.setSlots(1, 1)
    const result = await harness.score({ timeoutMs: 500 })
    expect(result).toMatchObject({ ok: false, reason: 'no_server' })
    expect(result).toHaveProperty('detail', expect.stringContaining('the request cannot be sent'))
    expect(fake.calls).toHaveLength(0)
    expect(harness.stats().inFlight).toBe(0)
  })
})

describe('an invalid response', () => {
  test.each([
    ['NaN', nan, 'non_finite'],
    ['a list too long', answer(200, '{"data":[{"probs":[1]},{"probs":[2]}]}'), 'unparseable'],
    ['5 MiB', answer(200, `"${'x'.repeat(5 << 20)}"`), 'unparseable'],
  ])(
    '%s: another server is tried, and if it agrees, the sample fails',
    async (_what, bad, reason) => {
      const [a, b, c] = await harness.serve([bad, bad, scores(3)])
      const agreed = await harness.score()
      expect(agreed).toMatchObject({ ok: false, reason })
      expect(agreed.attempts).toMatchObject([
        { outcome: 'corrupt', reason },
        { outcome: 'corrupt', reason },
      ])
      expect([a?.calls.length, b?.calls.length, c?.calls.length]).toEqual([1, 1, 0])
    },
  )

  test.each([
    ['a page', page],
    ['a redirect', answer(302, '', { location: 'http://elsewhere.example/' })],
  ])('%s is not the sample’s fault, however many servers agree', async (_what, bad) => {
    await harness.serve([bad, bad, scores(3)])
    const result = await harness.score()
    expect(result).toMatchObject({ ok: true, serverId: 3 })
    expect(result.attempts.map(({ outcome }) => outcome)).toEqual(['fault', 'fault', 'ok'])
  })

  test('NaN from the only server is the sample’s fault if that server scores a canary', async () => {
    const bad: FakeHandler = (call, response) =>
      (call.body.includes('"content":"A') ? nan : scores(1))(call, response)
    const [a] = await harness.serve([bad])
    expect(await harness.score()).toMatchObject({ ok: false, reason: 'non_finite' })
    expect(a?.calls).toHaveLength(2)
    expect(harness.stats()).toMatchObject({ health: 'ok', consecutiveFaults: 0, canaries: 1 })
  })

  test.each([
    ['NaN', nan],
    ['a page', page],
  ])('%s for every text, the canary’s too, is the server’s fault', async (_what, bad) => {
    await harness.serve([bad])
    const result = await harness.score({ timeoutMs: 400 })
    expect(result).toMatchObject({ ok: false, reason: 'no_server' })
    expect(result).toHaveProperty('detail', expect.stringContaining('no score for a canary'))
    expect(harness.stats()).toMatchObject({ inFlight: 0 })
    expect(harness.stats().ejections).toBeGreaterThan(0)
  })

  test('a redirect is not followed, and the detail names its target', async () => {
    const goal = await harness.fake(scores(9))
    await harness.serve([answer(307, '', { location: `${goal.url}/classify` })])
    const result = await harness.score({ timeoutMs: 400 })
    expect(result).toMatchObject({ ok: false, reason: 'no_server' })
    expect(result).toHaveProperty('detail', expect.stringContaining(`${goal.url}/classify`))
    expect(goal.calls).toHaveLength(0)
  })

  test('a server that gives invalid responses where others return scores is ejected', async () => {
    const [bad] = await harness.serve([nan, scores(2)])
    const calls = []
    for (let i = 0; i < 40; i++) calls.push(await harness.score())
    for (const result of calls) expect(result).toMatchObject({ ok: true, serverId: 2 })
    expect(harness.stats(1).health).not.toBe('ok')
    expect(bad?.calls.length).toBeLessThanOrEqual(7)
  })
})

describe('a busy server', () => {
  test('is replaced by another one immediately', async () => {
    await harness.serve([answer(503, 'The request queue is full.'), scores(2)])
    const result = await harness.score()
    expect(result).toMatchObject({ ok: true, serverId: 2 })
    expect(result.attempts).toMatchObject([{ outcome: 'busy', status: 503 }, { backoffMs: 0 }])
  })

  test('is not called by any sample before its Retry-After is over', async () => {
    const arrivals: number[] = []
    let refusals = 1
    await harness.serve([
      (call, response) => {
        arrivals.push(performance.now())
        const respond = refusals-- > 0 ? answer(429, '', { 'retry-after-ms': '150' }) : scores(1)
        respond(call, response)
      },
    ])
    const refused = harness.score()
    await until(() => harness.stats().failures.busy === 1)
    const fresh = harness.score()
    const result = await refused
    expect(result).toMatchObject({ ok: true })
    expect(await fresh).toMatchObject({ ok: true })
    expect(result.attempts[1]?.backoffMs).toBeGreaterThanOrEqual(149)
    for (const arrival of arrivals.slice(1)) {
      expect(arrival - (arrivals[0] as number)).toBeGreaterThanOrEqual(149)
    }
  })

  test('a Retry-After beyond the sample’s time limit ends the sample at its time limit, as a timeout', async () => {
    await harness.serve([answer(429, 'slow down', { 'retry-after': '3600' })])
    const result = await harness.score({ timeoutMs: 60 })
    expect(result).toMatchObject({ ok: false, reason: 'timeout' })
    expect(result).toHaveProperty('detail', expect.stringContaining('slow down'))
  })

  test('is never ejected for being busy, and waiting samples lose no attempt', async () => {
    const [fake] = await harness.serve([failsFirst(3, answer(503, 'overloaded'))], 1)
    const results = await Promise.all(Array.from({ length: 40 }, () => harness.score()))
    for (const result of results) expect(result).toMatchObject({ ok: true })
    expect(fake?.calls).toHaveLength(43)
    expect(harness.stats()).toMatchObject({ health: 'ok', consecutiveFaults: 0 })
  })
})

describe('a connection race', () => {
  /**
   * A server that answers the first call of a connection, and closes the connection without a byte at the second call.
   */
  const closesReused = (): FakeHandler => {
    const used = new WeakSet<object>()
    return (call, response) => {
      const socket = response.socket as object
      if (used.has(socket)) response.destroy()
      else {
        used.add(socket)
        scores(1)(call, response)
      }
    }
  }

  test('is repeated on the same server, and no attempt is charged', async () => {
    await harness.serve([closesReused()])
    await harness.score({ maxAttempts: 1 })
    const result = await harness.score({ maxAttempts: 1 })
    expect(result).toMatchObject({ ok: true, serverId: 1 })
    expect(result.attempts).toMatchObject([
      { attempt: 1, outcome: 'conn_race', backoffMs: 0 },
      { attempt: 1, outcome: 'ok' },
    ])
    expect(harness.stats()).toMatchObject({ errors: 0, retries: 0, health: 'ok', inFlight: 0 })
  })

  test('is repeated only once per sample', async () => {
    const [fake] = await harness.serve([scores(1)], 2)
    await Promise.all([harness.score(), harness.score()])
    if (fake) fake.handler = (_call, response) => response.destroy()
    const result = await harness.score({ maxAttempts: 1 })
    expect(result).toMatchObject({ ok: false, reason: 'transport' })
    expect(result.attempts.map(({ outcome }) => outcome)).toEqual(['conn_race', 'fault'])
  })
})

describe('passive health', () => {
  test('a server that fails quickly gets 5 samples and then one at a time; no sample fails', async () => {
    const [bad] = await harness.serve([fails, scores(2), scores(3), scores(4)], 1)
    const results = await Promise.all(Array.from({ length: 400 }, () => harness.score()))
    for (const result of results) expect(result).toMatchObject({ ok: true })
    expect(bad?.calls.length).toBeLessThan(20)
  })

  test('samples wait for an ejected server and are sent when it returns; the server is probed one call at a time', async () => {
    const events: RouterEvent[] = []
    harness.router.onEvent((event) => events.push(event))
    const [fake] = await harness.serve([fails], 8)
    await Promise.all(Array.from({ length: 8 }, () => harness.score({ maxAttempts: 1 })))
    expect(harness.stats().health).toBe('ejected')
    expect(harness.stats().ejectedUntilMs).toBeGreaterThan(0)

    // From now on the server delays every call, so that all admitted calls are in flight together.
    const held: (() => void)[] = []
    if (fake) {
      fake.handler = (call, response) => held.push(() => scores(1)(call, response))
      fake.maxInFlight = 0
    }
    const results = Array.from({ length: 30 }, () => harness.score())
    await until(() => held.length === 1)
    expect(harness.stats()).toMatchObject({ health: 'half_open', inFlight: 1, waiting: 29 })
    harness.router.setSlots(1, 8)
    expect(fake?.maxInFlight).toBe(1)
    held[0]?.()
    // One score may be luck, so a second probe is sent alone. After that, the server may use a growing share of its
    // slots.
    await until(() => held.length === 2)
    expect(harness.stats()).toMatchObject({ health: 'half_open', inFlight: 1, waiting: 28 })
    expect(fake?.maxInFlight).toBe(1)
    if (fake) fake.handler = scores(1)
    held[1]?.()
    for (const result of await Promise.all(results)) expect(result).toMatchObject({ ok: true })
    expect(events.map(({ from, to }) => `${from}>${to}`)).toEqual([
      'ok>ejected',
      'ejected>half_open',
      'half_open>slow_start',
    ])
    expect(events[0]?.cause).toContain('engine died')
  })

  test('no server returns in time: no_server, with the cause', async () => {
    await harness.serve([fails])
    await Promise.all(Array.from({ length: 5 }, () => harness.score({ maxAttempts: 1 })))
    const result = await harness.score({ timeoutMs: 40 })
    expect(result).toMatchObject({ ok: false, reason: 'no_server', attempts: [] })
    expect(result).toHaveProperty('detail', expect.stringContaining('engine died'))
  })

  test('timeouts of samples with little time left are not the server’s fault', async () => {
    const [fake] = await harness.serve([hangs], 1)
    const blocker = new AbortController()
    const first = harness.score({ signal: blocker.signal })
    await until(() => fake?.calls.length === 1)
    // These samples get the slot when most of their time is over.
    const late = Array.from({ length: 20 }, () => harness.score({ deadlineMs: 300 }))
    setTimeout(() => blocker.abort(), 250)
    await first
    for (const result of await Promise.all(late)) expect(result).toMatchObject({ ok: false })
    expect(harness.stats().consecutiveFaults).toBe(0)
  })

  test('a server that is registered as ready again takes samples immediately', async () => {
    const [fake] = await harness.serve([fails])
    const url = fake?.url ?? ''
    await Promise.all(Array.from({ length: 5 }, () => harness.score({ maxAttempts: 1 })))
    if (fake) fake.handler = scores(1)
    harness.router.setServers([config(1, url, { state: 'unreachable' })])
    harness.router.setServers([config(1, url)])
    expect(harness.stats().health).toBe('slow_start')
    expect(await harness.score()).toMatchObject({ ok: true })
  })
})

describe('counters', () => {
  test('are zero after thousands of calls with random faults, aborts and timeouts, and never negative', async () => {
    // The sequence is fixed, so that every run is the same.
    let seed = 1
    const random = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return seed / 2_147_483_648
    }
    const moody: FakeHandler = (call, response) => {
      const mood = random()
      if (mood < 0.05) fails(call, response)
      else if (mood < 0.08) response.destroy()
      else if (mood < 0.1) nan(call, response)
      else if (mood < 0.12) answer(503, 'busy')(call, response)
      else if (mood < 0.14) hangs(call, response)
      else scores(1)(call, response)
    }
    await harness.serve([moody, moody, moody], 32)
    const CALLS = FULL ? 10_000 : 3_000
    let negative = 0
    const watch = setInterval(() => {
      for (const server of harness.router.snapshot()) {
        if (server.inFlight < 0 || server.inFlight > 32) negative++
      }
    }, 5)
    const ends = new Map<string, number>()
    let started = 0
    const shared = new AbortController()
    await Promise.all(
      Array.from({ length: 200 }, async () => {
        while (started++ < CALLS) {
          const own = new AbortController()
          const aborts = random() < 0.2
          if (aborts) setTimeout(() => own.abort(), random() * 8)
          const result = await harness.score({
            timeoutMs: 500 + random() * 500,
            signal: aborts ? own.signal : shared.signal,
          })
          const end = result.ok ? 'ok' : result.reason
          ends.set(end, (ends.get(end) ?? 0) + 1)
        }
      }),
    )
    clearInterval(watch)
    expect(negative).toBe(0)
    expect([...ends.values()].reduce((a, b) => a + b, 0)).toBe(CALLS)
    for (const end of ['ok', 'cancelled', 'timeout']) expect(ends.get(end)).toBeGreaterThan(0)
    for (const server of harness.router.snapshot()) {
      expect(server).toMatchObject({ inFlight: 0, waiting: 0 })
    }
    await until(() => harness.fakes.every((fake) => fake.inFlight === 0))
  }, 60_000)
})

describe('an expired share of a limit', () => {
  test('leaves a request unsent that still waits for its connection', async () => {
    const [a] = await harness.serve([scores(3)])
    const result = harness.score({ maxAttempts: 1 })
    // The share of the limit expires before the connection is open, as it would during a pause of this process.
    expect(harness.stats(1)).toMatchObject({ inFlight: 1 })
    harness.router.setSlots(1, 8, 0)
    await until(() => harness.stats(1)?.waiting === 1)
    expect(a?.calls).toEqual([])
    harness.router.setSlots(1, 8)
    expect(await result).toMatchObject({
      ok: true,
      score: 3,
      attempts: [
        { attempt: 1, outcome: 'recalled', reason: null },
        { attempt: 1, outcome: 'ok' },
      ],
    })
    expect(a?.calls).toHaveLength(1)
    expect(harness.stats(1)).toMatchObject({ errors: 0 })
  })

  test('cancels its calls: the samples are sent again, and no attempt is charged', async () => {
    const [a] = await harness.serve([hangs])
    const result = harness.score({ maxAttempts: 1 })
    await until(() => a?.calls.length === 1)
    harness.router.setSlots(1, 0)
    harness.router.recall(1)
    await until(() => a?.calls[0]?.aborted === true)
    expect(harness.stats(1)).toMatchObject({ inFlight: 0, waiting: 1 })
    if (a) a.handler = scores(3)
    harness.router.setSlots(1, 8)
    expect(await result).toMatchObject({
      ok: true,
      score: 3,
      attempts: [
        { attempt: 1, outcome: 'recalled', reason: null },
        { attempt: 1, outcome: 'ok' },
      ],
    })
    expect(harness.stats(1)).toMatchObject({ errors: 0 })
  })
})
