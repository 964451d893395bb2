import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { batchCalls } from '../../testkit/service/batch-calls.ts'
import { itInFullRun } from '../../testkit/service/full-run.ts'
import { type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { type Sandbox, startSandbox } from '../../testkit/service/sandbox/process.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'

/** The code rule: two workers call a sandbox service, which runs the programs. */

let service: Service
let sandbox: Sandbox

beforeAll(async () => {
  ;[service, sandbox] = await Promise.all([Service.start(), startSandbox()])
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

const kwargs = (more: object = {}) => ({ sandbox_fusion_url: sandbox.runUrl, ...more })
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
    // The columns are the union of both rules' keys; the rule gsm8k has no cases.
    expect(rewardExtraInfo.passed?.slice(6)).toEqual([1, null, null, 0])
    expect(rewardExtraInfo.acc?.[7]).toBe(1)
  })

  itInFullRun(
    'Q15: the sandbox receives the configured limits: concurrent programs, memory, time',
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
      const fresh = await startSandbox()
      const alone = await submit(samples, {
        kwargs: { ...limits, sandbox_fusion_url: fresh.runUrl },
      })
      expect(await wait(alone.batchId)).toMatchObject({ scored: 24 })
      // At most two per worker.
      expect((await fresh.stats()).mostAtOnce).toBeLessThanOrEqual(4)
      await fresh.stop()
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
    const gone = await startSandbox()
    await gone.stop()
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
    const gone = await startSandbox()
    await gone.stop()
    const code = (name: string, options: { sandbox_fusion_url: string }) => ({
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
      code('lost', { sandbox_fusion_url: gone.runUrl }),
      code('slow', kwargs({ timeout: 30 })),
    )
    expect(lost.end).toMatchObject({ ok: false, reason: 'transport' })
    expect(lost.ends[0]).toMatchObject({ ok: false, reason: 'transport' })
    // The second component scores the program or is cancelled.
    expect(lost.ends[1]).not.toMatchObject({ reason: 'transport' })
    // A rule that fails at once starts no call.
    const early = await tried(code('code', kwargs()), {
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
  await refuse({}, 'invalid_kwargs')
  await refuse({ kwargs: kwargs({ max_concurrent: 0 }) }, 'invalid_kwargs')
  await refuse(
    { kwargs: { sandbox_fusion_url: 'http://169.254.169.254/run_code' } },
    'forbidden_url',
  )
  await refuse({ kwargs: { sandbox_fusion_url: 'file:///etc/passwd' } }, 'invalid_kwargs')
  await expect(
    service.api.samples.score.mutate({ run: 'code', step: 3, sample: program(RIGHT), reward: {} }),
  ).rejects.toMatchObject({ data: { reason: 'invalid_kwargs' } })
})
