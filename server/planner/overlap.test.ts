import { describe, expect, it } from 'vitest'
import { boundOf, evenSteps, predict, STRATEGIES, type Workload } from './overlap.ts'

const phases = { rolloutMs: 40_000, logProbMs: 43_000, updateMs: 120_000 }

/** The experiment of verl PR 2854: 1,024 prompts × 5, rewards of 1 to 40 s, four mini-batches, 203 s of compute. */
function theirs(concurrency: number | null, steps = 7): Workload {
  return {
    phases,
    miniBatches: 4,
    concurrency,
    steps: evenSteps({
      steps,
      groups: 1_024,
      groupSize: 5,
      rewardMs: (step, i) => 1_000 + 39_000 * fraction(step * 5_120 + i),
    }),
  }
}

function fraction(n: number): number {
  return (n * 0.6180339887498949) % 1
}

/** A workload that can be calculated by hand: groups of one sample, two mini-batches. */
function small(rewards: number[], over: { steps?: number; concurrency?: number } = {}): Workload {
  return {
    phases: { rolloutMs: 10, logProbMs: 5, updateMs: 20 },
    miniBatches: 2,
    concurrency: over.concurrency ?? null,
    steps: evenSteps({
      steps: over.steps ?? 1,
      groups: rewards.length,
      groupSize: 1,
      rewardMs: (_, i) => rewards[i] as number,
    }),
  }
}

describe('one step, calculated by hand', () => {
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
    // Times in ms: rollout until 10, log-probs until 15, first reward at 17, update until 27, second reward at 40,
    // update until 50.
    expect(predict(small([30, 7]), 'pipeline')).toMatchObject({ totalMs: 50, waitMs: 2 + 13 })
  })

  it('starts scoring during the rollout if samples are streamed', () => {
    expect(predict(small([30, 7]), 'streaming')).toMatchObject({ totalMs: 35 + 25, waitMs: 25 })
  })

  it('delivers a streamed rollout in the given number of chunks', () => {
    const whole = { ...small([30, 7]), streamedParts: 1 }
    expect(predict(whole, 'streaming').totalMs).toBe(10 + 30 + 25)
  })

  it('serves rewards in order if there is one slot', () => {
    const { totalMs } = predict(small([7, 30], { concurrency: 1 }), 'barrier')
    expect(totalMs).toBe(10 + 37 + 25)
  })

  it('completes a group with its slowest reward, in any order of its members', () => {
    const work = small([1, 2, 30, 4])
    const uneven = [{ rewardMs: [1, 2, 30, 4], groupOf: [0, 1, 0, 1], groups: 2 }]
    expect(predict({ ...work, steps: uneven }, 'pipeline').waitMs).toBe(15)
    const apart = [{ rewardMs: [1, 2, 30, 4], groupOf: [0, 0, 1, 1], groups: 2 }]
    expect(predict({ ...work, steps: apart }, 'pipeline').waitMs).toBe(15)
    const late = [{ rewardMs: [1, 12, 30, 4], groupOf: [0, 0, 1, 1], groups: 2 }]
    expect(predict({ ...work, steps: late }, 'pipeline').waitMs).toBe(7 + 8)
  })

  it('takes the same time per step in the steady state if steps do not overlap', () => {
    const { stepMs, steadyMs } = predict(small([7, 30], { steps: 5 }), 'barrier')
    expect({ stepMs, steadyMs }).toEqual({ stepMs: 65, steadyMs: 65 })
  })

  it('has the mean step time as its steady state if there are only two steps', () => {
    const { stepMs, steadyMs } = predict(small([7, 30], { steps: 2 }), 'barrier')
    expect({ stepMs, steadyMs }).toEqual({ stepMs: 65, steadyMs: 65 })
  })
})

describe('one step ahead', () => {
  it('hides the rewards behind the next rollout and the training', () => {
    // The first rollout takes 10 ms, each step 35 ms. During the last step, no rollout runs ahead.
    const { totalMs, waitMs } = predict(small([7, 20], { steps: 3 }), 'off_policy')
    // Times in ms: rollout until 10, the next until 20, log-probs until 25, rewards until 30: one wait of 5.
    expect({ totalMs, waits: waitMs * 3 }).toEqual({ totalMs: 3 * 35 + 5, waits: 5 })
  })

  it('may take less per step than its slowest reward, because two steps are in flight', () => {
    const { steadyMs } = predict(small([7, 60], { steps: 12 }), 'off_policy')
    expect(steadyMs).toBeGreaterThanOrEqual(35)
    expect(steadyMs).toBeLessThan(60)
  })
})

describe('the experiment of verl PR 2854', () => {
  const barrier = predict(theirs(256), 'barrier')

  it('matches the measured 613 s per step, two thirds of it due to the limit of 256 calls', () => {
    expect(barrier.stepMs / 1_000).toBeGreaterThan(610)
    expect(barrier.stepMs / 1_000).toBeLessThan(650)
  })

  it('is bounded by compute without that limit, and both strategies together reach the bound', () => {
    const work = theirs(null)
    const both = predict(work, 'both')
    expect(boundOf(work)).toEqual({ boundMs: 203_000, boundBy: 'trainer' })
    expect(both.stepMs / 203_000).toBeLessThan(1.001)
    expect(1 - both.stepMs / barrier.stepMs).toBeGreaterThan(0.65)
  })

  it('is bounded by the rewards with that limit', () => {
    const work = theirs(256)
    const { boundMs, boundBy } = boundOf(work)
    expect(boundBy).toBe('rewards')
    expect(boundMs / 1_000).toBeCloseTo((5_120 * 20.5) / 256, 0)
    // Only two one-time costs exceed the bound: the first rollout, and the last mini-batch after the last reward.
    const both = predict(work, 'both')
    expect(both.steadyMs / boundMs).toBeLessThan(1.001)
    expect(both.stepMs / boundMs).toBeLessThan(1.035)
    expect(predict(work, 'all').stepMs / boundMs).toBeLessThan(1.025)
  })
})

describe('every strategy', () => {
  const works = [theirs(null), theirs(256), theirs(64, 3), small([7, 30], { steps: 5 })]

  it.each(STRATEGIES)('%s: takes at least its bound; spans have no gap or overlap', (strategy) => {
    for (const work of works) {
      const { totalMs, stepMs, spans, waitMs, endsMs } = predict(work, strategy)
      const own = work.phases.rolloutMs + work.phases.logProbMs + work.phases.updateMs
      expect(stepMs).toBeCloseTo(own + waitMs, 6)
      expect(stepMs).toBeGreaterThanOrEqual(boundOf(work).boundMs)
      expect(endsMs.at(-1)).toBe(totalMs)
      let at = 0
      for (const span of spans) {
        expect(span.fromMs).toBeCloseTo(at, 6)
        at = span.toMs
      }
      expect(at).toBeCloseTo(totalMs, 6)
    }
  })

  it.each(STRATEGIES)('%s: never has more rewards in flight than slots', (strategy) => {
    const changes: [number, number][] = []
    predict(theirs(64, 2), strategy, (_, fromMs, toMs) => {
      changes.push([fromMs, 1], [toMs, -1])
    })
    expect(changes).toHaveLength(2 * 2 * 5_120)
    changes.sort(([a, x], [b, y]) => (Math.abs(a - b) < 1e-6 ? x - y : a - b))
    let inFlight = 0
    for (const [, by] of changes) {
      inFlight += by
      expect(inFlight).toBeLessThanOrEqual(64)
    }
    expect(inFlight).toBe(0)
  })

  it('gains nothing if rewards take no time', () => {
    const steps = STRATEGIES.map((s) => predict(small([0, 0], { steps: 4 }), s).stepMs)
    expect(new Set(steps)).toEqual(new Set([35]))
  })
})
