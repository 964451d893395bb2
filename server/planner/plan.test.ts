import { describe, expect, it } from 'vitest'
import { MAX_PLANNED_REWARDS, PlannerInput } from '../contract/planner.ts'
import type { Phases } from '../contract/strategies.ts'
import { evenSteps } from './overlap.ts'
import { InFlight, type Plan, planSteps, tooLarge } from './plan.ts'
import { typedSteps } from './typed-rewards.ts'

const typed = (over: object = {}) => {
  const input = PlannerInput.parse({
    source: {
      kind: 'typed',
      prompts: 128,
      groupSize: 5,
      reward: { kind: 'uniform', fromMs: 1_000, toMs: 40_000 },
    },
    phases: { rolloutMs: 40_000, logProbMs: 43_000, updateMs: 120_000 },
    limits: [32, null],
    servers: [1, 2],
    ...over,
  })
  return { ...input, phases: input.phases as Phases, limits: input.limits ?? [null] }
}

function stepsOf(input: PlannerInput) {
  if (input.source.kind !== 'typed') throw new Error('typed alone')
  return typedSteps(input.source, input.steps)
}

describe('typed rewards', () => {
  const all = (reward: object, over: object = {}) => {
    const source = { kind: 'typed', prompts: 2_000, groupSize: 5, reward, ...over }
    const steps = stepsOf(typed({ source, steps: 2 }))
    return steps.flatMap(({ rewardMs }) => Array.from(rewardMs)).sort((a, b) => a - b)
  }
  const mean = (values: number[]) => values.reduce((a, b) => a + b, 0) / values.length

  it('follow the given distribution', () => {
    const uniform = all({ kind: 'uniform', fromMs: 1_000, toMs: 40_000 })
    expect(uniform[0]).toBeGreaterThanOrEqual(1_000)
    expect(uniform.at(-1)).toBeLessThan(40_000)
    expect(mean(uniform) / 20_500).toBeCloseTo(1, 1)
    const lognormal = all({ kind: 'lognormal', medianMs: 800, sigma: 1 })
    expect((lognormal[10_000] as number) / 800).toBeCloseTo(1, 1)
    expect(mean(lognormal) / (800 * Math.exp(0.5))).toBeCloseTo(1, 1)
    expect(new Set(all({ kind: 'constant', ms: 250 }))).toEqual(new Set([250]))
  })

  it('depend only on the seed', () => {
    const reward = { kind: 'uniform', fromMs: 0, toMs: 1 }
    expect(all(reward)).toEqual(all(reward))
    expect(all(reward, { seed: 2 })).not.toEqual(all(reward))
  })

  it('include failed attempts, up to the maximum', () => {
    const reward = { kind: 'constant', ms: 100 }
    const tried = all(reward, { failedShare: 0.5, maxAttempts: 3 })
    expect(new Set(tried)).toEqual(new Set([100, 200, 300]))
    expect(mean(tried) / 175).toBeCloseTo(1, 1)
  })
})

describe('rewards in flight', () => {
  it('are averaged over each interval', () => {
    const inFlight = new InFlight(100, 4)
    inFlight.add(0, 50)
    inFlight.add(10, 15)
    inFlight.add(20, 80)
    inFlight.add(90, 400)
    inFlight.add(120, 130)
    expect(inFlight.means()).toEqual([1.4, 2, 1, 0.6])
  })
})

describe('a plan', () => {
  it('has one column per limit and number of servers, with their product as `slots`', async () => {
    const input = typed()
    const { columns } = await planSteps(input, stepsOf(input))
    expect(columns.map(({ limit, servers, slots }) => [limit, servers, slots])).toEqual([
      [32, 1, 32],
      [null, 1, null],
      [32, 2, 64],
      [null, 2, null],
    ])
    const [narrow, open, wide] = columns
    expect(narrow?.boundBy).toBe('rewards')
    expect(open).toMatchObject({ boundBy: 'trainer', boundMs: 203_000, best: 'pipeline' })
    for (const { strategies } of columns) {
      expect(strategies[0]).toMatchObject({ strategy: 'barrier', saving: 0 })
    }
    expect(wide?.boundMs).toBeLessThan(narrow?.boundMs as number)
    for (const [i, { stepMs }] of (wide?.strategies ?? []).entries()) {
      expect(stepMs).toBeLessThanOrEqual((narrow?.strategies[i]?.stepMs as number) + 1e-6)
    }
  })

  it('shows no gain if rewards take milliseconds', async () => {
    const reward = { kind: 'uniform', fromMs: 2, toMs: 20 }
    const input = typed({ source: { kind: 'typed', prompts: 64, groupSize: 8, reward } })
    const { columns } = await planSteps(input, stepsOf(input))
    for (const column of columns) expect(column).toMatchObject({ noGain: true, best: 'barrier' })
  })

  it('prefers the simplest strategy if no other saves 1 % more', async () => {
    // The pipeline hides 43 s of each reward. With one step off-policy, the last half second is hidden too.
    const reward = { kind: 'constant', ms: 43_500 }
    const input = typed({
      source: { kind: 'typed', prompts: 8, groupSize: 2, reward },
      ...{ limits: [null], servers: [1] },
    })
    const { columns } = await planSteps(input, stepsOf(input))
    const saving = (name: string) =>
      columns[0]?.strategies.find(({ strategy }) => strategy === name)?.saving as number
    expect(saving('both')).toBeGreaterThan(saving('pipeline'))
    expect(columns[0]).toMatchObject({ noGain: false, best: 'pipeline' })
  })

  it('draws the selected combination for the time of two barrier steps', async () => {
    const input = typed({ show: { limit: 32, servers: 2 } })
    const { columns, shown } = await planSteps(input, stepsOf(input))
    const barrierMs = columns[2]?.strategies[0]?.stepMs as number
    expect(shown.untilMs / (2 * barrierMs)).toBeCloseTo(1, 1)
    expect(shown.pictures.map(({ strategy }) => strategy)).toHaveLength(6)
    for (const { spans, inFlight } of shown.pictures) {
      expect(spans[0]).toMatchObject({ what: 'rollout', step: 0, fromMs: 0 })
      expect(Math.max(...inFlight)).toBeLessThanOrEqual(64)
      expect(Math.max(...inFlight)).toBeGreaterThan(50)
    }
  })

  it('accepts a step of zero duration', async () => {
    const input = typed({
      source: { kind: 'typed', prompts: 1, groupSize: 1, reward: { kind: 'constant', ms: 0 } },
      phases: { rolloutMs: 0, logProbMs: 0, updateMs: 0 },
    })
    const { columns, shown } = await planSteps(input, stepsOf(input))
    expect(columns.every(({ noGain }) => noGain)).toBe(true)
    expect(shown.untilMs).toBe(0)
  })

  it('is aborted by its signal', async () => {
    const input = typed()
    await expect(
      planSteps(input, stepsOf(input), AbortSignal.abort(new Error('gone'))),
    ).rejects.toThrow('gone')
  })

  it('is refused if it is too large', () => {
    const plan: Plan = typed({ steps: 32, limits: [1, 2, 3, 4, 5, 6], servers: [1, 2, 3] })
    expect(tooLarge(plan, 64)).toBeNull()
    expect(tooLarge(plan, MAX_PLANNED_REWARDS / 32 + 1)).toContain('at most 131,072')
    expect(tooLarge(plan, 4_000)).toContain('at most 10,000,000')
  })

  it('accepts fewer groups than mini-batches', async () => {
    const steps = evenSteps({ steps: 7, groups: 3, groupSize: 2, rewardMs: () => 5 })
    const { columns } = await planSteps(typed({ limits: [null], servers: [1] }), steps)
    expect(columns[0]?.strategies[0]?.stepMs).toBeCloseTo(203_005)
  })
})
