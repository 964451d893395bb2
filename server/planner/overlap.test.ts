import { describe, expect, it } from 'vitest'
import { boundOf, predict, STRATEGIES, type Workload } from './overlap.ts'

const phases = { rolloutMs: 40_000, logProbMs: 43_000, updateMs: 120_000 }

/** The upstream authors' experiment: 1,024 prompts × 5, rewards of 1 to 40 s, four mini-batches, 203 s of compute. */
function theirs(concurrency: number | null): Workload {
  return {
    phases,
    steps: 7,
    groups: 1_024,
    groupSize: 5,
    miniBatches: 4,
    concurrency,
    rewardMs: (step, i) => 1_000 + 39_000 * fraction(step * 5_120 + i),
  }
}

/** Spread evenly over 0 to 1, in no order. */
function fraction(n: number): number {
  return (n * 0.6180339887498949) % 1
}

/** Small enough to work out by hand: two groups of one, two mini-batches. */
const small = (rewards: number[], over: Partial<Workload> = {}): Workload => ({
  phases: { rolloutMs: 10, logProbMs: 5, updateMs: 20 },
  steps: 1,
  groups: 2,
  groupSize: 1,
  miniBatches: 2,
  concurrency: null,
  rewardMs: (_, i) => rewards[i] as number,
  ...over,
})

describe('one step, worked out by hand', () => {
  it('waits for every reward at a barrier', () => {
    const { totalMs, waitMs, spans } = predict(small([7, 30]), 'barrier')
    expect({ totalMs, waitMs }).toEqual({ totalMs: 10 + 30 + 5 + 20, waitMs: 30 })
    expect(spans.map(({ what, fromMs, toMs }) => [what, fromMs, toMs])).toEqual([
      ['rollout', 0, 10],
      ['wait', 10, 40],
      ['log_prob', 40, 45],
      ['update', 45, 55],
      ['update', 55, 65],
    ])
  })

  it('trains on the first mini-batch while the second is scored', () => {
    // 10 rolled out; 15 log-probs; 17 first reward (7); 27 updated; 40 second (30); 50 updated.
    expect(predict(small([30, 7]), 'pipeline')).toMatchObject({ totalMs: 50, waitMs: 2 + 13 })
  })

  it('starts scoring during the rollout where samples are streamed', () => {
    // The first ends at 5, the second at 10.
    expect(predict(small([30, 7]), 'streaming')).toMatchObject({ totalMs: 35 + 25, waitMs: 25 })
  })

  it('serves rewards in their order where there is room for one only', () => {
    const { totalMs } = predict(small([7, 30], { concurrency: 1 }), 'barrier')
    expect(totalMs).toBe(10 + 37 + 25)
  })
})

describe('one step ahead', () => {
  it('hides the rewards behind the next rollout and the training', () => {
    // 0–10 first rollout; each step 35; the last has none ahead of it.
    const { totalMs, waitMs } = predict(small([7, 20], { steps: 3 }), 'off_policy')
    // Rolled out at 10, the next at 20, log-probs 25, rewards at 30: 5 of waiting, and never again.
    expect({ totalMs, waits: waitMs * 3 }).toEqual({ totalMs: 3 * 35 + 5, waits: 5 })
  })
})

describe('the upstream authors’ experiment', () => {
  const barrier = predict(theirs(256), 'barrier')

  it('costs what they measured: 613 s a step, two thirds of it for 256 calls at once', () => {
    expect(barrier.stepMs / 1_000).toBeGreaterThan(610)
    expect(barrier.stepMs / 1_000).toBeLessThan(650)
  })

  it('is bounded by compute without that cap, and both strategies together reach it', () => {
    const both = predict(theirs(null), 'both')
    expect(both.boundMs).toBe(203_000)
    expect(both.stepMs / both.boundMs).toBeLessThan(1.001)
    expect(1 - both.stepMs / barrier.stepMs).toBeGreaterThan(0.65)
  })

  it('is bounded by the rewards with it', () => {
    const both = predict(theirs(256), 'both')
    expect(both.boundMs / 1_000).toBeCloseTo((5_120 * 20.5) / 256, 0)
    // What is over it is paid once: the first rollout, and the last mini-batch after the last reward.
    expect(both.steadyMs / both.boundMs).toBeLessThan(1.01)
    expect(both.stepMs / both.boundMs).toBeLessThan(1.04)
  })
})

describe('every strategy', () => {
  const works = [theirs(null), theirs(256), theirs(64), small([7, 30]), small([0, 0], { steps: 4 })]

  it.each(STRATEGIES)('%s: never under its bound, its spans without gap or overlap', (strategy) => {
    for (const work of works) {
      const { totalMs, stepMs, spans, waitMs } = predict(work, strategy)
      const own = work.phases.rolloutMs + work.phases.logProbMs + work.phases.updateMs
      expect(stepMs).toBeGreaterThanOrEqual(own)
      expect(stepMs).toBeCloseTo(own + waitMs, 6)
      let at = 0
      for (const span of spans) {
        expect(span.fromMs).toBeCloseTo(at, 6)
        at = span.toMs
      }
      expect(at).toBeCloseTo(totalMs, 6)
      // One step cannot hide behind another; over several the rewards' own time is the bound.
      if (work.steps > 1) expect(stepMs).toBeGreaterThan(boundOf(work) * 0.97)
    }
  })

  it('gains nothing where rewards take no time', () => {
    const steps = STRATEGIES.map((s) => predict(small([0, 0], { steps: 4 }), s).stepMs)
    expect(new Set(steps)).toEqual(new Set([35]))
  })
})
