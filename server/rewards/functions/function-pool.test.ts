import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { runWithFewFiles } from '../../../testkit/processes/child.ts'
import { inFullRun, itInFullRun } from '../../../testkit/service/full-run.ts'
import { waitFor } from '../../../testkit/service/wait-for.ts'
import type { FunctionRef } from '../../contract/resolved-reward.ts'
import type { RewardOutcome } from '../managers/manager.ts'
import type { FunctionPoolOptions } from './function-pool.ts'
import { TEST_PLAN } from './testing/test-plan.ts'
import { FUNCTION_ENV, lives, sampleOf, type TestPool, testPool } from './testing/test-pool.ts'

const INSPECT = fileURLToPath(new URL('./inspect-function.ts', import.meta.url))

let made: TestPool[] = []
afterEach(async () => {
  for (const one of made) await one.close()
  made = []
})

function pool(given: Partial<FunctionPoolOptions> = {}): TestPool {
  const one = testPool(given)
  made.push(one)
  return one
}

/** A folder that functions of every user can write to. */
function sharedFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'rewardops-shared-'))
  chmodSync(folder, 0o777)
  return folder
}

const options = (index: number, timeoutMs = 20_000) => ({
  timeoutMs,
  signal: undefined,
  run: 'a run',
  sampleId: `b1-${index}`,
})

function scoreAll(
  { pool }: TestPool,
  ref: FunctionRef,
  solutions: string[],
  timeoutMs?: number,
): Promise<RewardOutcome[]> {
  return Promise.all(
    solutions.map((text, i) => pool.score(ref, sampleOf(text), {}, options(i, timeoutMs))),
  )
}

const scoreOf = async (one: TestPool, text: string, fields: Partial<FunctionRef> = {}) =>
  one.pool.score(one.ref(text, fields), sampleOf('four'), {}, options(0))

describe('supported forms of a function', () => {
  test.each([
    ['verl’s name', 'export const compute_score = ({ solution_str: s }) => s.length', 4],
    [
      'types',
      'interface In { ground_truth: string }\nexport default (i: In): number => Number(i.ground_truth)',
      42,
    ],
    [
      'an object with a method',
      'export default { offset: 1, computeScore(i) { return i.solutionStr.length + this.offset } }',
      5,
    ],
    [
      'a class, constructed with its kwargs and initialized',
      `export default class {
        constructor(kwargs) { this.by = kwargs.by }
        async init() { this.more = 0.5 }
        compute_score(i) { return i.solutionStr.length * this.by + this.more }
      }`,
      8.5,
    ],
    ...inFullRun<[string, string, number]>(
      ['a default export', 'export default ({ solutionStr }) => solutionStr.length', 4],
      ['an async function', 'export const computeScore = async (i) => i.response_length', 3],
    ),
  ])('%s', async (_, text, score) => {
    expect(await scoreOf(pool(), text, { kwargs: { by: 2 } })).toMatchObject({ ok: true, score })
  })

  test('by name, with kwargs in addition to the fields of the sample', async () => {
    const one = pool()
    const text = `export const first = () => 1
      export async function second({ bonus, data_source, groundTruth }, { run, sampleId }) {
        return { score: bonus, data_source, groundTruth, run, sampleId }
      }`
    const ref = one.ref(text, { name: 'second', kwargs: { bonus: 7 } })
    const outcome = await one.pool.score(ref, sampleOf('x'), { bonus: 1 }, options(3))
    expect(outcome).toEqual({
      ok: true,
      score: 7,
      extra: { score: 7, data_source: 'mine', groundTruth: '42', run: 'a run', sampleId: 'b1-3' },
      attempts: null,
      waitedMs: expect.any(Number),
    })
  })

  test('CommonJS, with files that it requires from its folder', async () => {
    const one = pool()
    const ref = one.ref('module.exports = { compute_score: require("./lib/two.cjs").two }', {
      path: 'reward.cjs',
      files: { 'lib/two.cjs': 'exports.two = () => 2' },
    })
    expect(await one.pool.score(ref, sampleOf('x'), {}, options(0))).toMatchObject({ score: 2 })
  })
})

test('a function finds a package that is installed after its first call', async () => {
  const functionsDir = sharedFolder()
  const one = pool({ functionsDir })
  const ref = one.ref('export default async () => (await import("ours")).default')
  const score = () => one.pool.score(ref, sampleOf('x'), {}, options(0))
  expect(await score()).toMatchObject({ ok: false, reason: 'function_error' })
  mkdirSync(join(functionsDir, 'node_modules/ours'), { recursive: true })
  writeFileSync(join(functionsDir, 'node_modules/ours/index.js'), 'module.exports = 7')
  expect(await score()).toMatchObject({ ok: true, score: 7 })
  rmSync(functionsDir, { recursive: true })
})

describe('supported results of a function', () => {
  const results: [value: string, expected: object][] = [
    ['0.5', { ok: true, score: 0.5, extra: { acc: 0.5 } }],
    ['({ score: 1, pred: "4" })', { ok: true, score: 1, extra: { score: 1, pred: '4' } }],
    [
      '[0.5, "the prompt", "because"]',
      { ok: true, score: 0.5, extra: { acc: 0.5, prompt: 'the prompt', explanation: 'because' } },
    ],
    ['({ reward_score: 2, reward_extra_info: { a: 1 } })', { ok: true, score: 2, extra: { a: 1 } }],
    ['NaN', { ok: false, reason: 'non_finite' }],
    ['({ score: Infinity })', { ok: false, reason: 'non_finite' }],
    ['undefined', { ok: false, reason: 'function_error', detail: /returned nothing/ }],
    ['"0.5"', { ok: false, reason: 'function_error', detail: /the text "0.5"/ }],
    ['({ acc: 1 })', { ok: false, reason: 'function_error', detail: /an object with acc/ }],
    ['[]', { ok: false, reason: 'function_error', detail: /a list of 0/ }],
    ['({ score: 1, big: 10n })', { ok: false, reason: 'function_error', detail: /as JSON/ }],
    ['true', { ok: true, score: 1 }],
    ['({ then: (done) => done(0.25) })', { ok: true, score: 0.25 }],
  ]
  test('are read as scores with extra info, or fail the sample', async () => {
    const one = pool()
    const values = results.map(([value]) => `() => ${value}`)
    const ref = one.ref(
      `const values = [${values.join(', ')}]
       export default ({ solutionStr }) => values[Number(solutionStr)]()`,
    )
    const outcomes = await scoreAll(
      one,
      ref,
      results.map((_, i) => String(i)),
    )
    for (const [i, [value, expected]] of results.entries()) {
      const { detail, ...rest } = expected as { detail?: RegExp }
      expect(outcomes[i], value).toMatchObject(rest)
      if (detail) expect((outcomes[i] as { detail: string }).detail, value).toMatch(detail)
    }
  })

  test('an error fails its sample and names the line in the user’s file', async () => {
    const text = `import { deep } from './lib/deep.ts'
      export default (i) => (i.solutionStr === 'bad' ? deep(i) : 1)`
    const one = pool()
    const ref = one.ref(text, {
      files: {
        'lib/deep.ts': '\nexport const deep = (i: any) => { throw new Error("no such key") }',
      },
    })
    const [good, bad] = await scoreAll(one, ref, ['good', 'bad'])
    expect(good).toMatchObject({ ok: true, score: 1 })
    expect(bad).toMatchObject({ ok: false, reason: 'function_error' })
    expect((bad as { detail: string }).detail).toMatch(/no such key \(lib\/deep\.ts:2:\d+\)/)
  })

  test('a module that cannot be loaded fails its samples and says why', async () => {
    const outcome = await scoreOf(pool(), 'export default () => {')
    expect(outcome).toMatchObject({ ok: false, reason: 'function_error' })
    expect((outcome as { detail: string }).detail).toContain('reward.ts could not be loaded')
  })
})

describe('a function that ends its process', () => {
  /** A call whose response names a fault causes that fault. Any other call takes 150 ms, over two awaits. */
  const TEXT = `
    import { execFileSync } from 'node:child_process'
    const sleep = (ms) => new Promise((done) => setTimeout(done, ms))
    const hold = []
    export default async ({ solutionStr: what }) => {
      if (what === 'loop') for (;;) {}
      await sleep(50)
      if (what === 'async loop') for (;;) {}
      if (what === 'regex') return /^(a+)+$/.test('a'.repeat(40) + 'b') ? 1 : 0
      if (what === 'native') execFileSync('sleep', ['60'])
      if (what === 'memory') for (let i = 0; i < 256; i++) hold.push(Buffer.alloc(16 << 20, 1))
      if (what === 'slow memory') for (let i = 0; i < 256; i++) { hold.push(Buffer.alloc(16 << 20, 1)); await sleep(1) }
      if (what === 'heap') for (const list = []; ; ) list.push({ a: list.length })
      if (what === 'exit') process.exit(3)
      if (what === 'abort') process.abort()
      if (what === 'kill') process.kill(process.pid, 'SIGKILL')
      if (what === 'throw') { setTimeout(() => { throw new Error('much later') }, 20); await sleep(60_000) }
      if (what === 'reject') { void Promise.reject(new Error('nobody waits')); await sleep(60_000) }
      if (what === 'never') await new Promise(() => {})
      await sleep(100)
      return what.length
    }`

  test.each<readonly [what: string, reason: string, detail: RegExp]>([
    ['loop', 'timeout', /not done within 3000 ms/],
    ['memory', 'function_error', /\d+ MB, over its limit/],
    ['exit', 'function_error', /ended its process with code 3/],
    ...inFullRun<readonly [string, string, RegExp]>(
      ['throw', 'function_error', /uncaught: much later/],
      ['async loop', 'timeout', /not done within 3000 ms/],
      ['regex', 'timeout', /not done within 3000 ms/],
      // A process inside a system call cannot report the call that blocks it.
      ['native', 'timeout', /held up for 3000 ms/],
      ['slow memory', 'function_error', /\d+ MB, over its limit/],
      ['heap', 'function_error', /heap out of memory|over its limit/],
      ['abort', 'function_error', /ended its process with code 134/],
      ['kill', 'function_error', /ended with SIGKILL/],
    ),
  ])(
    '%s: only its sample fails, the other samples are scored, and the process ends',
    async (what, reason, detail) => {
      const one = pool()
      const ref = one.ref(TEXT)
      // The fault occurs in a process that has scored before.
      await scoreAll(one, ref, ['first'])
      const [pid] = one.pool.pids as [number]
      const outcomes = await scoreAll(
        one,
        ref,
        Array.from({ length: 64 }, (_, i) => (i === 37 ? what : 'fine')),
        ['loop', 'async loop', 'regex', 'native'].includes(what) ? 3_000 : 40_000,
      )
      const failed = outcomes.flatMap((outcome, i) => (outcome.ok ? [] : [{ i, ...outcome }]))
      expect(failed).toMatchObject([{ i: 37, reason }])
      expect(failed[0]?.detail).toMatch(detail)
      expect(outcomes.filter((outcome) => outcome.ok && outcome.score === 4)).toHaveLength(63)
      await waitFor('the process to be gone', () => !lives(pid))
      if (what !== 'throw') {
        expect(failed[0]?.detail).toContain('b1-37')
        expect(one.lines.some(({ fields }) => fields.sampleId === 'b1-37')).toBe(true)
      }
    },
  )

  test('a result that arrived while the worker was paused counts, even after its time limit', async () => {
    const one = pool()
    const text = `import { writeFileSync } from 'node:fs'
      export default async ({ solutionStr: folder }) => {
        if (folder === 'first') return 1
        writeFileSync(folder + '/began', '')
        await new Promise((resolve) => setTimeout(resolve, 300))
        writeFileSync(folder + '/returned', '')
        return 1
      }`
    const folder = sharedFolder()
    try {
      const ref = one.ref(text)
      await scoreAll(one, ref, ['first'])
      const outcomes = scoreAll(one, ref, [folder], 500)
      await waitFor('the call', () => existsSync(join(folder, 'began')))
      // After `setImmediate`, the event loop runs timers before it reads pipes.
      await new Promise<void>((resolve) => setImmediate(resolve))
      const clock = new Int32Array(new SharedArrayBuffer(4))
      while (!existsSync(join(folder, 'returned'))) Atomics.wait(clock, 0, 0, 5)
      Atomics.wait(clock, 0, 0, 1_500)
      expect(await outcomes).toMatchObject([{ ok: true, score: 1 }])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('a call that never settles times out alone; the process continues', async () => {
    const one = pool()
    const ref = one.ref(TEXT)
    await scoreAll(one, ref, ['first'])
    const before = one.pool.pids
    const outcomes = await scoreAll(one, ref, ['never', 'fine', 'fine'], 1_000)
    expect(outcomes).toMatchObject([{ reason: 'timeout' }, { ok: true }, { ok: true }])
    expect(one.pool.pids).toEqual(before)
  })

  test('an unhandled rejection fails its sample; the process continues', async () => {
    const one = pool()
    const ref = one.ref(TEXT)
    await scoreAll(one, ref, ['first'])
    const before = one.pool.pids
    const [rejected, fine] = await scoreAll(one, ref, ['reject', 'fine'])
    expect(rejected).toMatchObject({
      reason: 'function_error',
      detail: expect.stringContaining('uncaught: nobody waits'),
    })
    expect(fine).toMatchObject({ ok: true })
    expect(one.pool.pids).toEqual(before)
  })

  itInFullRun(
    'suspects that never settle or fail again do not keep other calls from ending',
    async () => {
      const one = pool()
      const ref = one.ref(TEXT)
      const solutions = ['kill', 'never', 'fine', 'never', 'kill', 'fine']
      const outcomes = await scoreAll(one, ref, solutions, 1_000)
      const ends = { kill: 'function_error', never: 'timeout', fine: 4 }
      expect(outcomes.map((outcome) => (outcome.ok ? outcome.score : outcome.reason))).toEqual(
        solutions.map((what) => ends[what as keyof typeof ends]),
      )
    },
  )

  itInFullRun('samples of another function are unaffected', async () => {
    const one = pool()
    const bad = scoreAll(one, one.ref(TEXT), ['loop', 'fine'], 1_000)
    const other = one.ref('export default async () => 9')
    await scoreAll(one, other, ['x'])
    const pids = new Set(one.pool.pids)
    expect(await scoreAll(one, other, ['x', 'y'])).toMatchObject([{ score: 9 }, { score: 9 }])
    expect(await bad).toMatchObject([{ reason: 'timeout' }, { ok: true }])
    expect(one.pool.pids.some((pid) => pids.has(pid))).toBe(true)
  })
})

describe('a manager class', () => {
  const MANAGER = `export default class {
    constructor({ kwargs, computeScore }) { Object.assign(this, { kwargs, computeScore }) }
    async runSingle(sample, context) {
      const { score, ...extra } = await this.computeScore(sample, context)
      return { reward_score: score * this.kwargs.factor, reward_extra_info: { ...extra, raw: score } }
    }
  }`

  test('scores by the scorer that the batch names', async () => {
    const one = pool()
    const manager = one.ref(MANAGER, { path: 'manager.ts', kwargs: { factor: 10 } })
    const score = async ({ solutionStr }: { solutionStr: string }): Promise<RewardOutcome> =>
      solutionStr === 'bad'
        ? { ok: false, reason: 'no_server', detail: 'none', attempts: null }
        : { ok: true, score: solutionStr.length, extra: { pred: 'x' }, attempts: null }
    const run = (text: string) => one.pool.runSingle(manager, sampleOf(text), { score }, options(0))
    expect(await run('four')).toMatchObject({ score: 40, extra: { pred: 'x', raw: 4 } })
    expect(await run('bad')).toMatchObject({ ok: false, reason: 'no_server' })
  })

  test('calls a custom function in the manager’s process', async () => {
    const one = pool()
    const manager = one.ref(MANAGER, { path: 'manager.ts', kwargs: { factor: 2 } })
    const text =
      'export default (i, { sampleId }) => ({ score: i.bonus, pid: process.pid, sampleId })'
    const wrapped = {
      function: one.ref(text, { kwargs: { bonus: 3 } }),
      score: () => Promise.reject(new Error('not called')),
    }
    const outcome = await one.pool.runSingle(manager, sampleOf('x'), wrapped, options(4))
    expect(outcome).toMatchObject({ score: 6, extra: { sampleId: 'b1-4', pid: one.pool.pids[0] } })
  })

  test.each([
    ['a list', "[3, 'asked', 'why']", { score: 6, extra: { explanation: 'why' } }],
    ...inFullRun<[string, string, object]>(
      ['a number', '3', { extra: { raw: 3, acc: 3 } }],
      [
        'NaN',
        'Number.NaN',
        { ok: false, reason: 'non_finite', detail: /mine\.ts: .*returned NaN/ },
      ],
    ),
  ])('reads any value that its function returned: %s', async (_, returned, expected) => {
    const one = pool()
    const manager = one.ref(MANAGER, { path: 'manager.ts', kwargs: { factor: 2 } })
    const wrapped = {
      function: one.ref(`export default () => (${returned})`, { path: 'mine.ts' }),
      score: () => Promise.reject(new Error('not called')),
    }
    const outcome = await one.pool.runSingle(manager, sampleOf('x'), wrapped, options(4))
    const { detail, ...others } = expected as { detail?: RegExp }
    expect(outcome).toMatchObject(others)
    if (detail) expect((outcome as { detail: string }).detail).toMatch(detail)
  })
})

describe('other methods of an object', () => {
  test('are called by the first name that exists', async () => {
    const one = pool()
    const ref = one.ref(
      `export default class {
      constructor(kwargs) { this.by = kwargs.by }
      computeScore() { return 1 }
      post_process_scores(scores) { return scores.map((score) => score - this.by) }
      broken() { throw new Error('no') }
    }`,
      { kwargs: { by: 1 } },
    )
    const names = ['postProcessScores', 'post_process_scores']
    expect(await one.pool.method(ref, names, [[1, 2, 3]], options(0))).toEqual({
      ok: true,
      value: [0, 1, 2],
    })
    const plural = one.ref(
      'export const compute_score = ({ data_sources }) => data_sources.map(() => 0)',
    )
    const args = [{ data_sources: ['a', 'b'] }]
    expect(await one.pool.method(plural, [], args, options(0))).toEqual({ ok: true, value: [0, 0] })
    expect(await one.pool.method(ref, ['broken'], [], options(0))).toMatchObject({ ok: false })
    expect(await one.pool.method(ref, ['gone'], [], options(0))).toMatchObject({ ok: false })
  })
})

describe('processes that take one call at a time', () => {
  test('are as many as requested', async () => {
    const one = pool()
    const folder = sharedFolder()
    // Each call waits until three processes have begun a call, however slowly they start.
    const ref = one.ref(`import { readdirSync, writeFileSync } from 'node:fs'
      let inside = 0
      export default async () => {
        inside++
        writeFileSync(${JSON.stringify(`${folder}/`)} + process.pid, '')
        while (readdirSync(${JSON.stringify(folder)}).length < 3) await new Promise((done) => setTimeout(done, 20))
        return { score: inside--, pid: process.pid }
      }`)
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        one.pool.score(ref, sampleOf('x'), {}, { ...options(i), processes: 3 }),
      ),
    )
    expect(outcomes.every((outcome) => outcome.ok && outcome.score === 1)).toBe(true)
    const pids = new Set(outcomes.map((outcome) => outcome.ok && outcome.extra?.pid))
    expect(pids.size).toBe(3)
    rmSync(folder, { recursive: true })
  })

  test('are killed when their call takes too long; the next call gets another process', async () => {
    const one = pool()
    const ref = one.ref(`export default ({ solutionStr }) => {
      if (solutionStr === 'loop') for (;;) {}
      return solutionStr.length
    }`)
    const solutions = ['a', 'loop', 'b', 'loop', 'c', 'd']
    const outcomes = await Promise.all(
      solutions.map((text, i) =>
        one.pool.score(ref, sampleOf(text), {}, { ...options(i, 1_000), processes: 2 }),
      ),
    )
    expect(outcomes.map((outcome) => (outcome.ok ? outcome.score : outcome.reason))).toEqual(
      solutions.map((text) => (text === 'loop' ? 'timeout' : 1)),
    )
  })

  test('run built-in rules too', async () => {
    const one = pool()
    const sample = sampleOf('so it is #### 42', { dataSource: 'openai/gsm8k' })
    const reward = {
      kind: 'rule' as const,
      manager: 'remote',
      model: null,
      kwargs: {},
      timeoutMs: 5_000,
      maxAttempts: 1,
      maxConcurrency: null,
      onFailure: { policy: 'null' as const },
    }
    const outcome = await one.pool.scoreByRule(sample, reward, { ...options(0), processes: 1 })
    expect(outcome).toMatchObject({ ok: true, score: 1 })
  })
})

describe('the router of a function', () => {
  const TEXT = `export default async ({ prompt, solutionStr, ask }, { router, rewardRouterAddress }) => {
    if (ask === 'missing') return router.score('x', { model: 'gone' })
    if (ask === 'caught') {
      const error = await router.score('x', { model: 'gone' }).catch((e) => e)
      return { score: 0, reason: error.reason }
    }
    const [a, b] = await router.classify([{ prompt, response: solutionStr }, 'text'], { model: 'rm' })
    const { content } = await router.chat({ model: 'judge', messages: [{ role: 'user', content: 'so?' }] })
    return { score: a + b, content, rewardRouterAddress }
  }`
  const router = {
    models: () => [{ model: 'rm' }, { model: 'judge' }],
    score: async ({ input }: { input: { prompt: string; response: string } }) => ({
      ok: true,
      score: input.prompt.length * 100 + input.response.length,
      attempts: [],
    }),
    chat: async ({ chat }: { chat: { messages: { content: string }[] } }) => ({
      ok: true,
      reply: { ok: true, content: `You said ${chat.messages[0]?.content}` },
      attempts: [],
    }),
  } as unknown as FunctionPoolOptions['router']

  test('calls the worker’s router', async () => {
    const one = pool({ router })
    const score = (ask: string) =>
      one.pool.score(one.ref(TEXT), sampleOf('four'), { ask }, options(0))
    expect(await score('')).toMatchObject({
      ok: true,
      // Each score is 100 × the prompt's length + the response's length. A plain text has no prompt.
      score: 1_404 + 4,
      extra: { content: 'You said so?', rewardRouterAddress: '127.0.0.1:3000' },
    })
    expect(await score('missing')).toMatchObject({ ok: false, reason: 'no_server' })
    expect(await score('caught')).toMatchObject({ ok: true, extra: { reason: 'no_server' } })
  })
})

describe('concurrent calls', () => {
  itInFullRun('one process runs thousands of waiting calls', async () => {
    const one = pool()
    // A busy machine may start a second process, whose few calls return 0 after 20 s.
    const text = `
      import { setTimeout as sleep } from 'node:timers/promises'
      let inside = 0
      const { promise, resolve } = Promise.withResolvers()
      export default async () => {
        if (++inside === 2_000) resolve(1)
        return await Promise.race([promise, sleep(20_000, 0)])
      }`
    const outcomes = await scoreAll(one, one.ref(text), Array(3_000).fill('x'), 60_000)
    const together = outcomes.filter((outcome) => outcome.ok && outcome.score === 1)
    expect(together.length).toBeGreaterThanOrEqual(2_000)
  })

  test('computing calls get another process instead of a long queue', async () => {
    const one = pool()
    const text = `export default () => {
      for (const until = performance.now() + 40; performance.now() < until; ) {}
      return process.pid
    }`
    const scored = scoreAll(one, one.ref(text), Array(64).fill('x'))
    await waitFor('another process', () => one.pool.pids.length === 2)
    expect(one.pool.capacity).toBeLessThan(64)
    const outcomes = await scored
    expect(new Set(outcomes.map((o) => (o.ok ? o.score : null))).size).toBe(2)
    expect(one.pool.capacity).toBe(64)
  })

  test('the end of a batch aborts its calls', async () => {
    const one = pool()
    const ref = one.ref(`export default async (_, { signal, log }) => {
      log.info('inside')
      await new Promise((done) => signal.addEventListener('abort', done))
      log.info('aborted', { why: signal.reason.message })
      return 1
    }`)
    const abort = new AbortController()
    const outcome = one.pool.score(ref, sampleOf('x'), {}, { ...options(5), signal: abort.signal })
    await waitFor('the call', () => one.lines.some((line) => line.message === 'inside'))
    abort.abort()
    expect(await outcome).toMatchObject({ ok: false, reason: 'cancelled' })
    await waitFor('the abort', () => one.lines.some((l) => l.message === 'aborted'))
    expect(one.lines.find((l) => l.message === 'aborted')?.fields).toMatchObject({
      sampleId: 'b1-5',
    })
  })

  test('a process that cannot be started for lack of file descriptors is reported', () => {
    const script = `
      import { openSync } from 'node:fs'
      import { inspectFunction } from ${JSON.stringify(INSPECT)}
      try {
        for (;;) openSync('/dev/null')
      } catch {}
      console.log(JSON.stringify(await inspectFunction({ env: {}, memoryBytes: 2 ** 28, plan: ${JSON.stringify(TEST_PLAN)} }, {})))`
    const node = runWithFewFiles(script)
    expect(node.stderr).toBe('')
    expect(JSON.parse(node.stdout)).toMatchObject({
      ok: false,
      message: expect.stringMatching(/^no process could be started for it: .*EMFILE/),
    })
  })

  test('a process does not inherit the service’s environment', async () => {
    const text = 'export default () => ({ score: 1, names: Object.keys(process.env) })'
    const outcome = await scoreOf(pool(), text)
    const names = outcome.ok ? (outcome.extra?.names as string[]) : []
    const own = ['HOME', 'PWD', 'TMPDIR']
    expect(names.filter((name) => !own.includes(name)).sort()).toEqual(
      Object.keys(FUNCTION_ENV).sort(),
    )
  })
})
