import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { childrenOf } from '../../testkit/chaos/processes.ts'
import { batchCalls } from '../../testkit/service/batch-calls.ts'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { type Sandbox, startSandbox } from '../../testkit/service/sandbox/process.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { findPython } from '../sandbox/python-home.ts'

let service: Service
let sandbox: Sandbox
let gone: Sandbox

beforeAll(async () => {
  ;[sandbox, gone] = await Promise.all([startSandbox(), startSandbox()])
  await gone.stop()
  const named = `fusion=${sandbox.runUrl},gone=${gone.runUrl}`
  service = await Service.start({ env: { REWARDOPS_SANDBOXES: named } })
})
afterAll(() => stopCleanly(service, () => sandbox?.stop()))

const truth = { inputs: ['1 2', '10 -3'], outputs: ['3', '7'] }
const RIGHT = 'a, b = map(int, input().split())\nprint(a + b)'

const program = (code: string, fields: Partial<Sample> = {}): Sample =>
  sample({
    dataSource: 'taco',
    prompt: 'Add two numbers.',
    response: `It goes like this:\n\`\`\`python\n${code}\n\`\`\``,
    groundTruth: truth,
    ...fields,
  })

const kwargs = (more: object = {}) => ({ sandbox: 'fusion', ...more })
const calls = batchCalls(() => service, { run: 'code' })
const { ended: wait, results } = calls
const submit = (samples: Sample[], reward: Submit['reward'], fields: Partial<Submit> = {}) =>
  calls.submit(samples, { reward, ...fields })

describe('programs', () => {
  it('are scored by the share of cases that they pass, beside samples of another rule', async () => {
    const samples = [
      program(RIGHT),
      program('print(3)'),
      program('raise SystemExit(1)'),
      program('import time\ntime.sleep(60)'),
      program('x = bytearray(1 << 30)\nprint(3)'),
      program('print(3'),
      program('def add(a, b):\n    return a + b', {
        groundTruth: JSON.stringify({ fn_name: 'add', inputs: ['1\n2'], outputs: ['3'] }),
      }),
      sample(),
      program(RIGHT, { groundTruth: null }),
      program('', { response: '', responseLength: 0 }),
    ]
    const { batchId } = await submit(samples, {
      kwargs: kwargs({ timeout: 3, memory_limit_mb: 256 }),
    })
    expect(await wait(batchId)).toMatchObject({
      status: 'completed',
      scored: 9,
      failed: 1,
      rewardName: 'code + gsm8k',
    })
    const { score, reason, rewardExtraKeys, rewardExtraInfo } = await results(batchId)
    expect(score).toEqual([1, 0.5, 0, 0, 0, 0, 1, 1, null, 0])
    expect(reason[8]).toBe('function_error')
    expect(rewardExtraKeys).toEqual(expect.arrayContaining(['acc', 'passed', 'statuses']))
    expect(rewardExtraInfo.statuses?.slice(0, 6)).toEqual([
      ['passed', 'passed'],
      ['passed', 'wrong_answer'],
      ['runtime_error', 'runtime_error'],
      ['timeout', 'timeout'],
      ['runtime_error', 'runtime_error'],
      ['runtime_error', 'runtime_error'],
    ])
    // The columns are the keys of both rules. The rule gsm8k has no test cases, so its `passed` is null.
    expect(rewardExtraInfo.passed?.slice(6)).toEqual([1, null, null, 0])
    expect(rewardExtraInfo.acc?.[7]).toBe(1)
  })

  itInFullRun(
    'the sandbox receives the configured limits: concurrent programs, memory, time',
    async () => {
      const samples = Array.from({ length: 24 }, (_, i) => program(`${RIGHT}  # ${i}`))
      const limits = { max_concurrent: 2, memory_limit_mb: 300, timeout: 7 }
      const before = await sandbox.stats()
      const { batchId } = await submit(samples, { kwargs: kwargs(limits) })
      expect(await wait(batchId)).toMatchObject({ scored: 24, mean: 1 })
      const { runs, memoryLimitsMb, timeoutsS } = await sandbox.stats()
      expect(runs - before.runs).toBe(48)
      expect(memoryLimitsMb).toContain(300)
      expect(timeoutsS).toContain(7)
    },
  )

  it('can also be scored by rule name, as single samples, and in an open batch', async () => {
    const named = { function: { name: 'code', kwargs: kwargs() } }
    const one = await service.api.samples.score.mutate({
      run: 'code',
      step: 2,
      sample: program(RIGHT, { dataSource: 'a set of ours' }),
      reward: named,
    })
    expect(one).toMatchObject({ status: 'scored', score: 1, rewardExtraInfo: { passed: 2 } })
    const { batchId } = await submit([], { kwargs: kwargs() }, { open: true })
    await service.api.batches.append.mutate({
      batchId,
      startIndex: 0,
      samples: [sample(), program(RIGHT)],
    })
    await service.api.batches.close.mutate({ batchId })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 2, mean: 1 })
  })
})

describe('a sandbox that gives no verdict', () => {
  it('fails its samples with a reason, never with a 0, and no other samples', async () => {
    const samples = [program(RIGHT), sample()]
    const { batchId } = await submit(samples, { kwargs: { sandbox_fusion_url: gone.runUrl } })
    expect(await wait(batchId)).toMatchObject({ scored: 1, failed: 1 })
    expect(await results(batchId)).toMatchObject({
      score: [null, 1],
      reason: ['transport', null],
    })
    const refusing = { kwargs: kwargs({ language: 'cobol' }) }
    const refused = await submit([program(RIGHT)], refusing)
    expect(await wait(refused.batchId)).toMatchObject({ failed: 1 })
    const detail = await service.api.samples.get.query({ id: `${refused.batchId}-0` })
    expect(detail).toMatchObject({ reason: 'rejected' })
    expect(detail.attemptLog[0]?.detail).toContain('422')
  })

  it('is distinguished from another component that fails, when a composite reward is tried', async () => {
    const code = (name: string, options: Record<string, string | number>) => ({
      ...{ name, weight: 1 },
      reward: { function: { name: 'code', kwargs: options } },
    })
    const tried = async (...combine: NonNullable<Submit['reward']>['combine'] & object) => {
      const { uid: _, ...one } = program(RIGHT)
      const { steps, end } = await service.api.rewards.try.mutate({
        sample: one,
        reward: { combine },
      })
      const [sum] = steps
      if (sum?.kind !== 'composite') throw new Error('no composite step')
      return { end, ends: sum.components.map((one) => one.end) }
    }
    const lost = await tried(
      code('lost', { sandbox: 'gone' }),
      code('slow', { sandbox: 'fusion', timeout: 30 }),
    )
    expect(lost.end).toMatchObject({ ok: false, reason: 'transport' })
    expect(lost.ends[0]).toMatchObject({ ok: false, reason: 'transport' })
    // The second component scores the program or is cancelled.
    expect(lost.ends[1]).not.toMatchObject({ reason: 'transport' })
    const early = await tried(code('code', { sandbox: 'fusion' }), {
      ...{ name: 'math', weight: 1 },
      reward: { function: { name: 'gsm8k' } },
    })
    expect(early.end).toMatchObject({ ok: false, reason: 'function_error' })
    expect(early.ends).toMatchObject([
      { ok: false, reason: 'cancelled', detail: 'not run: another component failed' },
      { ok: false, reason: 'function_error' },
    ])
  })

  it('fails its sample as timeout at the reward’s own time limit', async () => {
    const reward = { kwargs: kwargs({ timeout: 30 }), timeoutMs: 400 }
    const { batchId } = await submit([program('while True: pass')], reward)
    expect(await wait(batchId)).toMatchObject({ failed: 1 })
    expect(await results(batchId)).toMatchObject({ score: [null], reason: ['timeout'] })
  })
})

it('invalid options are refused at the submit', async () => {
  const refuse = (reward: Submit['reward'], reason: string) =>
    expect(submit([program(RIGHT)], reward)).rejects.toMatchObject({ data: { reason } })
  await refuse({ kwargs: kwargs({ max_concurrent: 0 }) }, 'invalid_kwargs')
  await refuse({ kwargs: { sandbox: 'unknown' } }, 'invalid_kwargs')
  for (const url of ['http://169.254.169.254/run_code', `${service.url}/run_code`]) {
    await refuse({ kwargs: { sandbox_fusion_url: url } }, 'forbidden_url')
  }
  await refuse({ kwargs: { sandbox_fusion_url: 'file:///etc/passwd' } }, 'invalid_kwargs')
  await expect(
    service.api.samples.score.mutate({
      ...{ run: 'code', step: 3, sample: program(RIGHT) },
      reward: { kwargs: { sandbox: 'unknown' } },
    }),
  ).rejects.toMatchObject({ data: { reason: 'invalid_kwargs' } })
})

const local = await findPython(null)
if (!local.ok) console.warn(`vitest: the sandbox of the service is not tested. ${local.reason}`)

describe.skipIf(!local.ok)('the sandbox of the service', () => {
  const humanEval = {
    prompt: 'def half(n):\n    """Half of n, rounded down."""\n',
    entry_point: 'half',
    test: 'def check(candidate):\n    assert candidate(7) == 3\n    assert candidate(8) == 4\n',
  }

  it('runs programs and unit tests in a batch, single samples and the playground', async () => {
    const tested = (code: string, groundTruth: object = humanEval) => program(code, { groundTruth })
    const asserts = { test_list: ['assert half(7) == 3', 'assert half(9) == 4'] }
    const samples = [
      program(RIGHT),
      program('import os\nos._exit(0)'),
      tested('def half(n): return n // 2'),
      tested('    return n // 2'),
      tested('import os\ndef half(n): os._exit(0)'),
      tested('def half(n): return (n + 1) // 2', asserts),
      tested('class Half: value = 3', { test_list: ['assert Half().value == 3'] }),
      program('x = bytearray(1 << 30)\nprint(3)'),
    ]
    const { batchId } = await submit(samples, { kwargs: { timeout: 5, memory_limit_mb: 128 } })
    expect(await wait(batchId)).toMatchObject({ scored: 8, failed: 0 })
    const { score, rewardExtraInfo } = await results(batchId)
    expect(score).toEqual([1, 0, 1, 1, 0, 0, 1, 0])
    expect(rewardExtraInfo.isolation).toEqual([...new Array(6).fill('strong'), 'weak', 'strong'])
    expect(rewardExtraInfo.limits?.[7]).toEqual(['memory', 'memory'])
    expect(rewardExtraInfo.isolation_reason?.[6]).toBe(
      'the tests use the class Half of the program',
    )
    const one = await service.api.samples.score.mutate({
      ...{ run: 'code', step: 9, sample: tested('def half(n): return n // 2'), reward: {} },
    })
    expect(one).toMatchObject({ status: 'scored', score: 1 })
    const { uid: _, ...tried } = tested('def half(n): return n')
    expect(await service.api.rewards.try.mutate({ sample: tried, reward: {} })).toMatchObject({
      end: { ok: true, score: 0 },
    })
  })

  itInFullRun('is checked for large bodies too, which another thread accepts', async () => {
    const text = 'x'.repeat(2 ** 20)
    const { batchId } = await submit([program(RIGHT, { prompt: text })], {})
    expect(await wait(batchId)).toMatchObject({ scored: 1, mean: 1 })
  })

  itInFullRun('is started again when it ends, and no sample is lost', async () => {
    const samples = Array.from({ length: 40 }, (_, i) => program(`${RIGHT}  # ${i}`))
    const { batchId } = await submit(samples, {})
    const { server } = await service.pids()
    const command = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    const [pid] = childrenOf(server).filter((one) => command(one).includes('sandbox/start.ts'))
    process.kill(pid as number, 'SIGKILL')
    expect(await wait(batchId)).toMatchObject({ scored: 40 })
  })
})

itInFullRun(
  'without a sandbox a reward that needs one is refused, and says what to install',
  async () => {
    const bare = await Service.start({ env: { REWARDOPS_SANDBOX_PYTHON: '/no/python' } })
    try {
      const { submit: submitBare } = batchCalls(() => bare, { run: 'code' })
      await expect(submitBare([program(RIGHT)], { reward: {} })).rejects.toMatchObject({
        data: { reason: 'sandbox_unavailable', hint: expect.stringContaining('Python') },
      })
      const { batchId } = await submitBare([sample()], { reward: {} })
      expect(batchId).toMatch(/^b/)
    } finally {
      await bare.stop()
    }
  },
)
