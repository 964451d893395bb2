/**
 * The fourteen scenarios with which verl tests its rate-limited manager, by name, on a clock that stands still between
 * steps. Where verl gives 0.0 for a failure, the scenario expects a reason and no score.
 */
import { describe, expect, test } from 'vitest'
import { GateRegistry } from './gate-registry.ts'
import { type RequestLimits, readLimits } from './limit-settings.ts'
import { type LimitedOutcome, runLimited } from './limited-run.ts'
import { RequestGate } from './request-gate.ts'
import { TestClock } from './testing/test-clock.ts'
import { TokenBucket } from './token-bucket.ts'

interface Sample {
  solutionStr: string
  groundTruth: string
  extraInfo?: Record<string, unknown>
}
type Scorer = (sample: Sample, clock: TestClock) => unknown

const right: Sample = { solutionStr: 'answer', groundTruth: 'answer' }

const judge: Scorer = async ({ solutionStr, groundTruth }, clock) => {
  await clock.sleep(10)
  return solutionStr.trim() === groundTruth.trim() ? 1 : 0
}

function setUp(kwargs: Record<string, unknown>, scorer: Scorer = judge, compat?: 'verl') {
  const clock = new TestClock()
  const limits: RequestLimits = { ...readLimits(kwargs), ...(compat ? { compat } : {}) }
  const gate = new RequestGate(limits, clock)
  const calls: number[] = []
  const score = (sample: Sample = right): Promise<LimitedOutcome<unknown>> =>
    runLimited(gate, clock, () => {
      calls.push(clock.nowMs())
      return scorer(sample, clock)
    })
  const all = (n: number) => clock.until(Promise.all(Array.from({ length: n }, () => score())))
  const inTurn = async (n: number) => {
    for (let at = 0; at < n; at++) await clock.until(score())
  }
  return { clock, gate, calls, score, all, inTurn }
}

const rounded = (calls: number[]) => calls.map((ms) => Math.round(ms))

describe('rate-limited manager', () => {
  test('basic_reward_computation', async () => {
    const { clock, score, calls } = setUp({ max_concurrent: 10, timeout: 10 })
    expect(await clock.until(score())).toMatchObject({ ok: true, value: 1, serviceMs: 10 })
    expect(calls).toHaveLength(1)
  })

  test('rpm_rate_limiting', async () => {
    const { clock, inTurn, calls } = setUp({ max_concurrent: 10, max_rpm: 60, timeout: 10 })
    await inTurn(3)
    expect(clock.nowMs()).toBeGreaterThanOrEqual(1_800)
    expect(rounded(calls)).toEqual([0, 1_000, 2_000])
  })

  test('tpm_rate_limiting', async () => {
    const kwargs = { max_concurrent: 10, max_tpm: 6_000, estimated_tokens_per_request: 2_000 }
    const { clock, inTurn, calls } = setUp(kwargs)
    await inTurn(2)
    expect(clock.nowMs()).toBeGreaterThanOrEqual(18_000)
    expect(rounded(calls)).toEqual([0, 20_000])
  })

  test('concurrency_limiting', async () => {
    const { clock, gate, all, calls } = setUp({ max_concurrent: 2, timeout: 10 })
    const outcomes = await all(5)
    expect(outcomes.every((outcome) => outcome.ok)).toBe(true)
    expect(calls).toEqual([0, 0, 10, 10, 20])
    expect(clock.nowMs()).toBe(30)
    expect(gate.stats()).toMatchObject({ inFlight: 0, waiting: 0 })
  })

  test('timeout_handling', async () => {
    const slow: Scorer = async (_, clock) => clock.sleep(2_000)
    const { clock, score } = setUp({ max_concurrent: 10, timeout: 0.5 }, slow)
    const outcome = await clock.until(score())
    expect(outcome).toMatchObject({ ok: false, reason: 'timeout', serviceMs: 500 })
    expect(outcome).not.toHaveProperty('value')
  })

  test('error_handling', async () => {
    const failing: Scorer = () => {
      throw new Error('Simulated API error')
    }
    const { clock, score, calls } = setUp({ max_concurrent: 10, timeout: 10 }, failing)
    const outcome = await clock.until(score())
    expect(outcome).toMatchObject({ ok: false, reason: 'function_error' })
    expect(!outcome.ok && outcome.detail).toContain('Simulated API error')
    expect(calls).toHaveLength(1)
  })

  test('dict_result_format', async () => {
    const value = { score: 1, correct: true, reasoning: 'Mock reasoning' }
    const { clock, score } = setUp({ max_concurrent: 10, timeout: 10 }, async () => value)
    expect(await clock.until(score())).toMatchObject({ ok: true, value })
  })

  test('sync_reward_function', async () => {
    const sync: Scorer = ({ solutionStr, groundTruth }) => (solutionStr === groundTruth ? 1 : 0)
    const { clock, score } = setUp({ max_concurrent: 10, timeout: 10 }, sync)
    expect(await clock.until(score())).toMatchObject({ ok: true, value: 1, serviceMs: 0 })
  })

  test('combined_rate_limits', async () => {
    const { clock, all, calls } = setUp({
      max_concurrent: 2,
      max_rpm: 120,
      max_tpm: 12_000,
      estimated_tokens_per_request: 100,
      timeout: 10,
    })
    const outcomes = await all(6)
    expect(outcomes.every((outcome) => outcome.ok)).toBe(true)
    expect(clock.nowMs()).toBeGreaterThanOrEqual(1_800)
    expect(rounded(calls)).toEqual([0, 0, 500, 1_000, 1_500, 2_000])
  })

  test('correct_vs_incorrect_answers', async () => {
    const { clock, score } = setUp({ max_concurrent: 10, timeout: 10 })
    const wrong = { solutionStr: 'wrong answer', groundTruth: 'right answer' }
    expect(await clock.until(score(right))).toMatchObject({ value: 1 })
    expect(await clock.until(score(wrong))).toMatchObject({ value: 0 })
  })

  test('high_throughput', async () => {
    const { clock, all, calls } = setUp({ max_concurrent: 20, max_rpm: 6_000, timeout: 10 })
    await all(200)
    expect(calls).toHaveLength(200)
    expect(clock.nowMs()).toBeGreaterThanOrEqual(900)
    expect((calls.length / clock.nowMs()) * 1_000).toBeLessThanOrEqual(200)
  })

  test('class_initialization_once', () => {
    const gates = new GateRegistry(new TestClock())
    const limits = readLimits({ max_concurrent: 5, timeout: 10 })
    expect(gates.gate('judge', { ...limits }).gate).toBe(gates.gate('judge', limits).gate)
    expect(gates.gate('other', limits).gate).not.toBe(gates.gate('judge', limits).gate)
  })

  test('warn when later limits are ignored', () => {
    const gates = new GateRegistry(new TestClock())
    expect(gates.gate('judge', readLimits({ max_rpm: 60 })).ignored).toEqual([])
    const later = gates.gate('judge', readLimits({ max_rpm: 120, max_concurrent: 8, timeout: 5 }))
    expect(later.ignored.sort()).toEqual([
      'maxConcurrent stays 1, 8 is ignored',
      'maxRpm stays 60, 120 is ignored',
    ])
    expect(later.gate.limits.maxRpm).toBe(60)
  })

  test('extra_info_handling', async () => {
    const received: unknown[] = []
    const { clock, score } = setUp({ max_concurrent: 10, timeout: 10 }, async ({ extraInfo }) => {
      received.push(extraInfo)
      return 1
    })
    await clock.until(score({ ...right, extraInfo: { custom_field: 'test_value' } }))
    expect(received).toEqual([{ custom_field: 'test_value' }])
  })
})

describe('the first call does not wait', () => {
  test('below 60 calls a minute the first call starts at once; with compat it waits, as in verl', async () => {
    const ours = setUp({ max_concurrent: 10, max_rpm: 30 })
    await ours.all(3)
    expect(rounded(ours.calls)).toEqual([0, 2_000, 4_000])
    const theirs = setUp({ max_concurrent: 10, max_rpm: 30 }, judge, 'verl')
    await theirs.all(3)
    expect(rounded(theirs.calls)).toEqual([1_000, 3_000, 5_000])
  })

  test('with compat, a call of more than one second’s tokens starts after 19 s, as in verl', async () => {
    const kwargs = { max_tpm: 6_000, estimated_tokens_per_request: 2_000 }
    const theirs = setUp(kwargs, judge, 'verl')
    await theirs.inTurn(2)
    expect(rounded(theirs.calls)).toEqual([19_000, 39_000])
  })

  test('burst_seconds allows a larger burst', async () => {
    const { all, calls } = setUp({ max_concurrent: 100, max_rpm: 60, burst_seconds: 10 })
    await all(12)
    expect(rounded(calls).slice(8)).toEqual([0, 0, 1_000, 2_000])
  })
})

describe('no reserved capacity stays unused', () => {
  test('after a stall at most the burst is sent at once', async () => {
    let stalled = true
    const { clock, calls, score } = setUp(
      { max_concurrent: 1, max_rpm: 60, timeout: 3_600 },
      async (_, on) => on.sleep(stalled ? 60_000 : 0),
    )
    const all = Array.from({ length: 5 }, () => score())
    await clock.pass(59_000)
    stalled = false
    await clock.until(Promise.all(all))
    // A call takes its permit only once it has a slot. In verl, all five calls take their permits during the stall, and
    // the other four are sent together at 60 s.
    expect(rounded(calls)).toEqual([0, 60_000, 61_000, 62_000, 63_000])
  })

  test('waiting time is split by cause and is not part of the timeout', async () => {
    const { clock, score } = setUp(
      { max_concurrent: 1, max_rpm: 60, timeout: 0.8 },
      async (_, on) => on.sleep(700),
    )
    const [first, second, third] = await clock.until(Promise.all([score(), score(), score()]))
    expect(first?.waits).toEqual({ slotMs: 0, rpmMs: 0, tpmMs: 0 })
    expect(second).toMatchObject({ ok: true, waits: { slotMs: 700, rpmMs: 300, tpmMs: 0 } })
    expect(third).toMatchObject({ ok: true, waits: { slotMs: 1_400, rpmMs: 600 } })
    expect(third?.serviceMs).toBeCloseTo(700)
  })

  test('a call that continues after its timeout keeps its slot until it stops, 5 s at most', async () => {
    const neverEnds: Scorer = () => new Promise(() => {})
    const { clock, gate, score } = setUp({ max_concurrent: 1, timeout: 1 }, neverEnds)
    expect(await clock.until(score())).toMatchObject({ reason: 'timeout' })
    expect(gate.stats().inFlight).toBe(1)
    await clock.pass(5_000)
    expect(gate.stats().inFlight).toBe(0)
  })
})

describe('real usage', () => {
  const limits = readLimits({
    max_concurrent: 100,
    max_tpm: 60_000,
    estimated_tokens_per_request: 1_000,
  })

  async function startsOf(used: number | undefined): Promise<number[]> {
    const clock = new TestClock()
    const gate = new RequestGate(limits, clock)
    const starts: number[] = []
    for (let at = 0; at < 4; at++) {
      await clock.until(
        runLimited(gate, clock, () => starts.push(clock.nowMs()), { usedTokens: () => used }),
      )
    }
    return rounded(starts)
  }

  test('corrects the estimate in both directions', async () => {
    expect(await startsOf(undefined)).toEqual([0, 1_000, 2_000, 3_000])
    expect(await startsOf(500)).toEqual([0, 500, 1_000, 1_500])
    expect(await startsOf(3_000)).toEqual([0, 3_000, 6_000, 9_000])
  })
})

describe('a cancelled call', () => {
  test('that still waits uses no capacity, and later calls move up', async () => {
    const clock = new TestClock()
    const gate = new RequestGate(readLimits({ max_concurrent: 10, max_rpm: 60 }), clock)
    const abort = new AbortController()
    const starts: number[] = []
    const run = (signal?: AbortSignal) =>
      runLimited(gate, clock, () => starts.push(clock.nowMs()), signal ? { signal } : {})
    const first = run()
    const second = run(abort.signal)
    const third = run(abort.signal)
    const fourth = run()
    await clock.pass(500)
    abort.abort(new Error('the batch was cancelled'))
    const outcomes = await clock.until(Promise.all([first, second, third, fourth]))
    expect(outcomes.map((outcome) => (outcome.ok ? 'ok' : outcome.reason))).toEqual([
      'ok',
      'cancelled',
      'cancelled',
      'ok',
    ])
    expect(rounded(starts)).toEqual([0, 1_000])
    expect(gate.stats()).toMatchObject({ inFlight: 0, waiting: 0 })
  })

  test('that runs is aborted and ends as cancelled', async () => {
    const clock = new TestClock()
    const gate = new RequestGate(readLimits({}), clock)
    const abort = new AbortController()
    let aborted = false
    const running = runLimited(
      gate,
      clock,
      (signal) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            aborted = true
            reject(signal.reason)
          })
        }),
      { signal: abort.signal },
    )
    await clock.pass(1)
    abort.abort()
    expect(await clock.until(running)).toMatchObject({ ok: false, reason: 'cancelled' })
    expect(aborted).toBe(true)
    expect(gate.stats().inFlight).toBe(0)
  })
})

describe('one limit over several workers', () => {
  test('four gates share one rate and keep its limit', async () => {
    const clock = new TestClock()
    const limits = readLimits({ max_concurrent: 50, max_rpm: 600 })
    const row = new TokenBucket(10, 10)
    // Each reservation takes 3 ms, like one in a database row.
    const shared = {
      async reserve(amount: number, nowMs: number) {
        await clock.sleep(3)
        return row.reserve(amount, nowMs)
      },
      refund: (amount: number, nowMs: number) => row.refund(amount, nowMs),
    }
    const starts: number[] = []
    const runs = Array.from({ length: 4 }, () => {
      const gate = new RequestGate(limits, clock, { requests: shared })
      return Array.from({ length: 50 }, () =>
        runLimited(gate, clock, () => starts.push(clock.nowMs())),
      )
    })
    await clock.until(Promise.all(runs.flat()))
    expect(starts).toHaveLength(200)
    starts.sort((a, b) => a - b)
    // No span of one second has more than 20 calls: ten by the rate and ten by the burst.
    for (const [at, start] of starts.entries()) {
      const inSecond = starts.slice(at).findIndex((later) => later >= start + 1_000)
      expect(inSecond === -1 ? starts.length - at : inSecond).toBeLessThanOrEqual(20)
    }
    expect(starts.at(-1)).toBeGreaterThanOrEqual(18_900)
    expect(starts.at(-1)).toBeLessThan(19_500)
  })

  test('an unreachable rate fails the call, and the next call tries it again', async () => {
    const clock = new TestClock()
    let down = true
    const rate = {
      async reserve() {
        if (down) throw new Error('no database')
        return 0
      },
      refund() {},
    }
    const gate = new RequestGate(readLimits({ max_rpm: 60 }), clock, { requests: rate })
    expect(await clock.until(runLimited(gate, clock, () => 1))).toMatchObject({
      ok: false,
      reason: 'function_error',
      detail: 'no database',
    })
    down = false
    expect(await clock.until(runLimited(gate, clock, () => 1))).toMatchObject({ ok: true })
  })
})

describe('settings', () => {
  test('verl’s defaults', () => {
    expect(readLimits({})).toEqual({
      maxConcurrent: 1,
      maxRpm: null,
      maxTpm: null,
      estimatedTokens: 2_000,
      timeoutMs: 300_000,
      burstSeconds: 1,
    })
  })

  test.each([{ max_rpm: 0 }, { max_concurrent: 0 }, { max_rps: 1 }, { timeout: '300' }])(
    '%j is refused',
    (kwargs) => {
      expect(() => readLimits(kwargs)).toThrow()
    },
  )
})
