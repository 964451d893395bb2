import { Duplex } from 'node:stream'
import { serialize } from 'node:v8'
import { afterEach, describe, expect, test } from 'vitest'
import { FULL, inFullRun } from '../../../testkit/service/full-run.ts'
import { HostChannel } from './host-channel.ts'
import { encodeFrame, MAX_MESSAGE_BYTES } from './host-frames.ts'
import { inspectFunction } from './inspect-function.ts'
import type { FromHost } from './protocol.ts'
import { TEST_PLAN } from './testing/test-plan.ts'
import { lives, sampleOf, type TestPool, testPool } from './testing/test-pool.ts'

let made: TestPool[] = []
const rejections: unknown[] = []
const onRejection = (error: unknown) => rejections.push(error)
process.on('unhandledRejection', onRejection)
process.on('uncaughtException', onRejection)
afterEach(async () => {
  for (const one of made) await one.close()
  made = []
  expect(rejections.splice(0)).toEqual([])
})

function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

const VALID: FromHost[] = [
  { type: 'end', id: 1, sync: true, busyMs: 0.1, end: { ok: true, score: 1, extra: { acc: 1 } } },
  {
    type: 'end',
    id: 2,
    sync: false,
    busyMs: 3,
    end: { ok: false, reason: 'function_error', detail: 'it threw' },
  },
  { type: 'end', id: 3, sync: false, busyMs: 3, end: { ok: true, value: [1, 2] } },
  {
    type: 'end',
    id: 4,
    sync: false,
    busyMs: 3,
    end: { ok: true, results: [{ ok: true, score: 0, extra: null }] },
  },
  { type: 'loaded', key: 'k', error: null },
  { type: 'inspected', result: { ok: true, form: 'function', methods: [] } },
  { type: 'log', call: 1, level: 'info', message: 'hello', fields: { a: 1 }, leftOut: 0 },
  {
    type: 'ask',
    call: 1,
    request: 1,
    question: { op: 'score', model: 'm', input: { prompt: 'p', response: 'r' }, options: {} },
  },
  { type: 'load-average', busy: 0.5 },
  { type: 'spent', why: 'uncaught: x' },
]

describe('a channel', () => {
  function read(chunks: Buffer[]): { messages: FromHost[]; problems: string[] } {
    const stream = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
    const messages: FromHost[] = []
    const problems: string[] = []
    new HostChannel(
      stream,
      (message) => messages.push(message),
      (problem) => problems.push(problem),
    )
    for (const chunk of chunks) stream.emit('data', chunk)
    return { messages, problems }
  }

  test('returns every valid message for any chunk boundaries', () => {
    const bytes = Buffer.concat(VALID.map(encodeFrame))
    expect(read([bytes])).toEqual({ messages: VALID, problems: [] })
    const single = Array.from({ length: bytes.length }, (_, at) => bytes.subarray(at, at + 1))
    expect(read(single)).toEqual({ messages: VALID, problems: [] })
  })

  test('takes 10,000 hostile messages without throwing, and reads nothing after a violation', () => {
    const random = seeded(11)
    const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T
    const ODD: unknown[] = [
      null,
      true,
      -1,
      1e308,
      2 ** 53,
      '',
      'NaN',
      '__proto__',
      [],
      {},
      [[]],
      { cmd: 'NODE_HANDLE_ACK' },
    ]
    const mutate = (value: unknown): unknown => {
      if (typeof value !== 'object' || value === null || random() < 0.2) return pick(ODD)
      const copy = structuredClone(value) as Record<string, unknown>
      const key = pick([...Object.keys(copy), 'extra', 'type', 'id'])
      const what = random()
      if (what < 0.2) delete copy[key]
      else copy[key] = what < 0.6 ? pick(ODD) : mutate(copy[key])
      return copy
    }
    const garbage = (length: number) =>
      Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)))
    const framed = (body: Buffer) => {
      const head = Buffer.alloc(4)
      head.writeUInt32BE(body.length)
      return Buffer.concat([head, body])
    }
    let violations = 0
    for (let i = 0; i < 10_000; i++) {
      const kind = i % 5
      const bytes =
        kind === 0
          ? garbage(4 + Math.floor(random() * 60))
          : kind === 1
            ? framed(garbage(Math.floor(random() * 60)))
            : kind === 2
              ? framed(serialize(pick(VALID)))
              : kind === 3
                ? framed(Buffer.from(JSON.stringify(mutate(pick(VALID))) ?? 'null'))
                : encodeFrame(pick(VALID)).fill(
                    Math.floor(random() * 256),
                    4 + Math.floor(random() * 20),
                  )
      const { messages, problems } = read([bytes, encodeFrame(VALID[0] as FromHost)])
      violations += problems.length
      expect(problems.length).toBeLessThanOrEqual(1)
      if (problems.length === 1) expect(messages.length).toBeLessThanOrEqual(1)
    }
    // The other changed messages are still valid, or are frames whose body never ends.
    expect(violations).toBeGreaterThan(7_000)
  })

  const nested = Buffer.from(`{"type":"spent","why":${'['.repeat(200_000)}`)
  const wide = Buffer.from(`[${'{},'.repeat(5_000_000)}{}]`)
  test.each([
    ['a length beyond the limit', [Buffer.from([0xff, 0xff, 0xff, 0xff])], /bytes long/],
    ['deep nesting', frameOf(nested), /nested/],
    ['millions of empty objects', frameOf(wide), /values/],
  ])('refuses %s before it is parsed', (_, chunks, problem) => {
    const before = process.memoryUsage().heapUsed
    const { messages, problems } = read(chunks)
    expect(messages).toEqual([])
    expect(problems).toEqual([expect.stringMatching(problem)])
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(64 << 20)
  })

  test('a listener that throws is a violation, not an error of the reader', () => {
    const stream = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
    const problems: string[] = []
    const broken = () => {
      throw new Error('no such call')
    }
    new HostChannel(stream, broken, (problem) => problems.push(problem))
    stream.emit('data', encodeFrame(VALID[0] as FromHost))
    expect(problems).toEqual(['it could not be handled: no such call'])
  })

  test('reading pauses for a process that reads none of its answers', () => {
    const stream = new Duplex({ read() {}, write() {} })
    const sizes: number[] = []
    const channel = new HostChannel(
      stream,
      (_message, bytes) => {
        sizes.push(bytes)
        channel.question(bytes)
      },
      (problem) => expect.unreachable(problem),
    )
    const question = encodeFrame({
      type: 'ask',
      call: 1,
      request: 1,
      question: { op: 'template', model: 'm'.repeat(8 << 20) },
    })
    for (let i = 0; i < 4; i++) stream.emit('data', question)
    expect(stream.isPaused()).toBe(true)
    for (const bytes of sizes) channel.answered(bytes)
    expect(stream.isPaused()).toBe(false)
  })
})

function frameOf(body: Buffer): Buffer[] {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(body.length)
  return [head, body]
}

const ATTACKER = `
import { writeSync } from 'node:fs'
const all = (fd, bytes) => {
  for (let at = 0; at < bytes.length; ) {
    try { at += writeSync(fd, bytes, at) } catch (error) { if (error.code !== 'EAGAIN') throw error }
  }
}
export const raw = (bytes) => all(3, Buffer.from(bytes))
export const frame = (body) => {
  const bytes = Buffer.from(body)
  const head = Buffer.alloc(4)
  head.writeUInt32BE(bytes.length)
  all(3, Buffer.concat([head, bytes]))
}
export const json = (value) => frame(JSON.stringify(value))
export const mark = (line) => all(4, Buffer.from(line + '\\n'))
`

const INVALID_MESSAGES: [what: string, code: string][] = [
  ['null', 'json(null)'],
  ['a number', 'json(7)'],
  ['no type', 'json({})'],
  ['an unknown type', 'json({ type: "stop" })'],
  [
    'an unknown log level',
    'json({ type: "log", call: 0, level: "fatal!", message: "x", fields: null, leftOut: 0 })',
  ],
]

const ATTACKS: [what: string, code: string][] = [
  ...INVALID_MESSAGES.slice(0, 1),
  ['marks without end', 'for (let i = 0; i < 100_000; i++) mark("U")'],
  ...inFullRun<[string, string]>(
    ['a load that was not requested', 'json({ type: "loaded", key: "x", error: null })'],
    ['bytes that are not a frame', 'raw([0xff, 0xff, 0xff, 0xff, 1, 2, 3])'],
    [
      'log lines without end',
      'for (let i = 0; i < 100_000; i++) json({ type: "log", call: 0, level: "debug", message: "x", fields: null, leftOut: 0 })',
    ],
    [
      'a long unfinished frame',
      'raw(Buffer.concat([Buffer.from([0, 255, 255, 255]), Buffer.alloc(20 << 20)]))',
    ],
    ...INVALID_MESSAGES.slice(1),
    ['a message `spent` without a reason', 'json({ type: "spent" })'],
    [
      'the end of an unknown call',
      'json({ type: "end", id: 123456, sync: true, busyMs: 0, end: { ok: true, score: 1, extra: null } })',
    ],
    [
      'the result of an inspection',
      'json({ type: "inspected", result: { ok: true, form: "function", methods: [] } })',
    ],
    ['a frame that is not JSON', 'frame([0, 1, 2, 3])'],
    ['an internal message of Node', 'json({ cmd: "NODE_HANDLE_ACK" })'],
    ['deep nesting', 'frame("[".repeat(1_000_000))'],
    ['an unknown mark', 'mark("Z 1")'],
    ['a mark that is not a number', 'mark("S one")'],
    ['marks of unknown calls', 'for (let i = 0; i < 10_000; i++) mark("S " + i)'],
  ),
]

const options = (index: number, timeoutMs = 20_000) => ({
  timeoutMs,
  signal: undefined,
  run: 'a run',
  sampleId: `b1-${index}`,
})

describe('a function that attacks its worker', () => {
  function pool(): TestPool {
    const one = testPool()
    made.push(one)
    return one
  }
  const attack = (one: TestPool, code: string, after = 'await new Promise(() => {})') =>
    one.ref(
      `import { raw, frame, json, mark } from './attacker.mjs'
       export default async ({ solutionStr }) => {
         if (solutionStr === 'good') { await new Promise((r) => setTimeout(r, 20)); return 1 }
         ${code}
         ${after}
       }`,
      { path: 'reward.mjs', files: { 'attacker.mjs': ATTACKER } },
    )

  test.each(ATTACKS)('by %s fails alone', async (_, code) => {
    const one = pool()
    const ref = attack(one, code)
    const texts = ['good', 'good', 'bad', 'good', 'good']
    const outcomes = await Promise.all(
      texts.map((text, i) => one.pool.score(ref, sampleOf(text), {}, options(i))),
    )
    expect(outcomes.map((outcome) => outcome.ok)).toEqual([true, true, false, true, true])
    expect(outcomes[2]).toMatchObject({ reason: 'function_error' })
    expect((outcomes[2] as { detail: string }).detail).toMatch(/^b1-2: its process /)
  })

  test('during loading makes loading fail', async () => {
    const one = pool()
    const ref = one.ref(
      `import { json } from './attacker.mjs'
       json(null)
       await new Promise((r) => setTimeout(r, 60_000))
       export default () => 1`,
      { path: 'reward.mjs', files: { 'attacker.mjs': ATTACKER } },
    )
    const outcome = await one.pool.score(ref, sampleOf('x'), {}, options(0))
    expect(outcome).toMatchObject({ ok: false, reason: 'function_error' })
    expect((outcome as { detail: string }).detail).toMatch(/could not be loaded.*not valid/)
  })

  test('before any call has begun does not start processes endlessly', async () => {
    const one = pool()
    const ref = one.ref(
      // The process parses each message it receives, so it ends as soon as it receives a call.
      `const { parse } = JSON
       JSON.parse = (text) => {
         const value = parse(text)
         if (value.type === 'call') process.kill(process.pid, 'SIGKILL')
         return value
       }
       export default () => 1`,
    )
    const outcome = await one.pool.score(ref, sampleOf('x'), {}, options(0))
    expect(outcome).toMatchObject({ ok: false, reason: 'function_error' })
  })

  test('by endless output is slowed down; other functions score meanwhile, and memory stays bounded', async () => {
    const one = pool()
    const noisy = one.ref(
      `export default async () => {
         const text = 'x'.repeat(1 << 20)
         for (;;) { process.stdout.write(text + '\\n'.repeat(1000)); await new Promise((r) => setImmediate(r)) }
       }`,
      { path: 'noisy.mjs' },
    )
    const good = one.ref('export default () => 1', { path: 'good.mjs' })
    const before = process.memoryUsage().rss
    const shouting = one.pool.score(noisy, sampleOf('x'), {}, options(0, 1_200))
    const outcomes = []
    for (let i = 1; i <= 200; i++) {
      outcomes.push(await one.pool.score(good, sampleOf('x'), {}, options(i)))
    }
    expect(outcomes.every((outcome) => outcome.ok)).toBe(true)
    // The function exceeds its time limit, or its unsent output exceeds its memory limit.
    expect(await shouting).toMatchObject({ ok: false })
    expect(process.memoryUsage().rss - before).toBeLessThan(300 << 20)
  })

  test('by malformed questions fails, and its process continues', async () => {
    const one = pool()
    const ref = one.ref(
      `export default async ({ solutionStr }, { router }) => {
         const [model, input] = JSON.parse(solutionStr)
         return router.score(input, { model })
       }`,
    )
    for (const question of [
      [null, 'x'],
      [{}, { prompt: 1, response: [] }],
      ['m', { prompt: [null], response: 'r' }],
    ]) {
      const outcome = await one.pool.score(ref, sampleOf(JSON.stringify(question)), {}, options(0))
      expect(outcome).toMatchObject({ ok: false, reason: 'function_error' })
      expect((outcome as { detail: string }).detail).toMatch(/model|input/)
    }
    expect(one.pool.pids.every(lives)).toBe(true)
  })

  test('by a result that is too large fails, and the detail says so', async () => {
    const one = pool()
    const ref = one.ref(
      `export default ({ solutionStr }) => ({ score: 1, [solutionStr]: solutionStr === 'deep'
         ? Array.from({ length: 500 }).reduce((inner) => [inner], 1)
         : 'x'.repeat(${MAX_MESSAGE_BYTES}) })`,
    )
    const details = []
    for (const text of ['deep', 'long']) {
      const outcome = await one.pool.score(ref, sampleOf(text), {}, options(0))
      details.push((outcome as { detail: string }).detail)
    }
    expect(details).toEqual([
      expect.stringMatching(/cannot be encoded: .*nested/),
      expect.stringMatching(/characters of JSON/),
    ])
  })
})

test('a module that attacks while it is inspected is refused', async () => {
  const one = testPool()
  made.push(one)
  const settings = { env: { PATH: '/usr/bin:/bin' }, memoryBytes: 256 << 20, plan: TEST_PLAN }
  const { chmodSync, mkdtempSync, rmSync, writeFileSync } = await import('node:fs')
  const { tmpdir } = await import('node:os')
  const { join } = await import('node:path')
  const dir = mkdtempSync(join(tmpdir(), 'rewardops-inspect-'))
  chmodSync(dir, 0o755)
  try {
    writeFileSync(join(dir, 'attacker.mjs'), ATTACKER)
    for (const [, code] of FULL ? INVALID_MESSAGES : INVALID_MESSAGES.slice(0, 2)) {
      writeFileSync(
        join(dir, 'reward.mjs'),
        `import { raw, frame, json, mark } from './attacker.mjs'
         ${code}
         await new Promise((r) => setTimeout(r, 60_000))
         export default () => 1`,
      )
      const target = {
        key: '',
        dir,
        path: 'reward.mjs',
        name: null,
        kwargs: {},
        isolation: 'process',
        role: 'function',
      } as const
      expect(await inspectFunction(settings, target)).toMatchObject({
        ok: false,
        message: expect.stringMatching(/message that is not valid/),
      })
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
})
