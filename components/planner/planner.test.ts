import { describe, expect, test } from 'vitest'
import type { PlannedColumn, PlannerDto } from '../../server/contract/planner.ts'
import { requestOf } from './planner-form.prepare.ts'
import {
  ASYNC_AGENT_EXPERIMENT,
  PLANNER_EXAMPLES,
  type PlannerDraft,
  planBatchHref,
  plannerUrl,
  withSource,
} from './planner-url.ts'
import { originText, stepText, verdictOf } from './strategy-words.ts'
import { prepareTimeline } from './timeline.prepare.ts'

const draft = (over: Partial<PlannerDraft> = {}): PlannerDraft => ({
  ...ASYNC_AGENT_EXPERIMENT,
  ...over,
})
const DERIVED = { rollout: '', logprob: '', update: '', limits: '' }
const parsed = (query: string) => plannerUrl.parse(new URLSearchParams(query))

describe('planner URL', () => {
  test('omits the default experiment and keeps other values', () => {
    expect(plannerUrl.write(draft()).toString()).toBe('')
    for (const one of [
      draft({ prompts: '64', spread: 'lognormal', second: '0.5', show: 'nonex1' }),
      draft({ source: 'batch', batch: 'b12', limits: '16' }),
      draft({ source: 'run', run: 'a run & more' }),
      draft({ source: 'batch' }),
      ...PLANNER_EXAMPLES.map((example) => example.draft),
    ]) {
      expect(parsed(plannerUrl.write(one).toString())).toEqual(one)
    }
  })

  test('needs only an ID for a batch', () => {
    expect(parsed(planBatchHref('b7').split('?')[1] as string)).toEqual(
      draft({ source: 'batch', batch: 'b7', ...DERIVED }),
    )
  })

  test('leaves derived fields of a record empty, except given ones', () => {
    const recorded = draft({ source: 'run', run: 'r', ...DERIVED })
    expect(plannerUrl.write(recorded).toString()).toBe('run=r')
    const given = { ...recorded, rollout: '40' }
    expect(plannerUrl.write(given).toString()).toBe('run=r&rollout=40')
    expect(parsed('run=r&rollout=40')).toEqual(given)
    expect(withSource(draft({ update: '7' }), 'batch')).toEqual(
      draft({ source: 'batch', ...DERIVED, update: '7' }),
    )
    expect(withSource({ ...given, rollout: '9' }, 'typed')).toEqual(
      draft({ run: 'r', rollout: '9' }),
    )
  })

  test('ignores invalid values', () => {
    expect(parsed('source=x&spread=y&prompts=abc')).toEqual(draft({ prompts: 'abc' }))
  })
})

describe('planner form', () => {
  test('converts typed seconds to milliseconds', () => {
    expect(requestOf(draft({ show: 'nonex1', failed: '2.5', first: '0,3' }))).toEqual({
      errors: {},
      input: {
        source: {
          kind: 'typed',
          prompts: 1_024,
          groupSize: 5,
          reward: { kind: 'uniform', fromMs: 300, toMs: 40_000 },
          failedShare: 0.025,
          maxAttempts: 4,
          seed: 1,
        },
        phases: { rolloutMs: 40_000, logProbMs: 43_000, updateMs: 120_000 },
        steps: 7,
        miniBatches: 4,
        limits: [256, null],
        servers: [1],
        show: { limit: null, servers: 1 },
      },
    })
  })

  test('accepts a batch number as ID, and sends no request without one', () => {
    const { input } = requestOf(draft({ source: 'batch', batch: ' 12 ' }))
    expect(input?.source).toEqual({ kind: 'batch', batchId: 'b12' })
    expect(requestOf(draft({ source: 'batch' }))).toEqual({ input: null, errors: {} })
    expect(requestOf(draft({ source: 'run' }))).toEqual({ input: null, errors: {} })
  })

  test.each([
    ['prompts', 'x'],
    ['group', '0'],
    ['group', '1.5'],
    ['first', '-1'],
    ['second', '0.5'],
    ['failed', '99'],
    ['rollout', ''],
    ['update', '1e9'],
    ['steps', '33'],
    ['mini', '0'],
    ['limits', ''],
    ['limits', '256, many'],
    ['limits', '1,2,3,4,5,6,7'],
    ['servers', 'none'],
  ] as [keyof PlannerDraft, string][])('marks %s "%s" as invalid', (key, value) => {
    const { input, errors } = requestOf(draft({ [key]: value }))
    expect(input).toBeNull()
    expect(Object.keys(errors)).toEqual([key])
  })

  test('omits empty trainer times and limits of a record', () => {
    const { input } = requestOf(draft({ source: 'run', run: 'r', ...DERIVED, update: '2' }))
    expect(input?.phases).toEqual({ updateMs: 2_000 })
    expect(input).not.toHaveProperty('limits')
    const shown = requestOf(draft({ source: 'run', run: 'r', ...DERIVED, show: '16x1' }))
    expect(shown.input?.show).toEqual({ limit: 16, servers: 1 })
  })

  test('ignores fields of other sources', () => {
    const { errors } = requestOf(draft({ source: 'batch', batch: 'b1', prompts: 'x', second: '' }))
    expect(errors).toEqual({})
  })

  test('drops a selected combination that no longer exists', () => {
    expect(requestOf(draft({ show: '64x1' })).input).not.toHaveProperty('show')
  })
})

describe('planner texts', () => {
  const column = (over: Partial<PlannedColumn> = {}): PlannedColumn => ({
    limit: 256,
    servers: 1,
    slots: 256,
    boundMs: 410_000,
    boundBy: 'rewards',
    best: 'both',
    noGain: false,
    strategies: [
      { strategy: 'barrier', stepMs: 637_000, steadyMs: 637_000, waitMs: 434_000, saving: 0 },
      { strategy: 'both', stepMs: 423_000, steadyMs: 410_000, waitMs: 220_000, saving: 0.336 },
    ],
    ...over,
  })

  test('state the saving and its bound', () => {
    const { title, detail } = verdictOf(column())
    expect(title).toBe(
      'With 256 concurrent rewards, the step time is 423.0\u00a0s with one step off-policy and the mini-batch pipeline instead of 637.0\u00a0s: 34\u00a0% less.',
    )
    expect(detail).toContain('Of this, 220.0\u00a0s is reward wait')
    expect(detail).toContain('only more concurrency')
  })

  test('state that there is no saving', () => {
    const { title, detail } = verdictOf(
      column({ limit: null, best: 'barrier', noGain: true, boundBy: 'trainer' }),
    )
    expect(title).toBe('Without a limit, overlapping brings no gain.')
    expect(detail).toContain('a barrier is sufficient')
  })

  test('name the source of trainer times and concurrency', () => {
    const phases = { rolloutMs: 40_000, logProbMs: 43_000, updateMs: 120_000 }
    const columns = [column(), column({ limit: null })]
    expect(
      originText({ phases, phasesFrom: 'record', limitsFrom: 'record', columns: [column()] }),
    ).toBe(
      'Trainer times are taken from the recorded steps. Concurrency is the highest number of rewards that a recorded batch had in flight.',
    )
    expect(originText({ phases, phasesFrom: 'input', limitsFrom: 'input', columns })).toBe(
      'Trainer times are assumed. Enter those of your trainer. Concurrency is assumed.',
    )
    expect(
      originText({
        ...{ phases: { ...phases, updateMs: 1 }, phasesFrom: 'input', limitsFrom: 'input' },
        columns: [column()],
      }),
    ).toBe('Trainer times are as entered. Concurrency is as entered.')
  })

  test('show step times in seconds', () => {
    expect([20, 59_000, 203_000, 2_870_000, 9_000_000].map(stepText)).toEqual([
      '20\u00a0ms',
      '59.0\u00a0s',
      '203.0\u00a0s',
      '2,870\u00a0s',
      '2:30\u00a0h',
    ])
  })
})

describe('step timeline', () => {
  const shown: PlannerDto['shown'] = {
    limit: null,
    servers: 1,
    untilMs: 200,
    pictures: [
      {
        strategy: 'barrier',
        spans: [
          { what: 'rollout', step: 0, fromMs: 0, toMs: 50 },
          { what: 'update', step: 0, fromMs: 50, toMs: 400 },
        ],
        inFlight: [0, 10],
      },
      { strategy: 'both', spans: [], inFlight: [5, 0] },
    ],
  }

  test('draws all lanes on one scale, cut at its end', () => {
    const { lanes, most, ticks } = prepareTimeline(shown)
    expect(most).toBe(10)
    expect(lanes[0]?.bars).toEqual([
      { what: 'rollout', step: 0, from: 0, share: 0.25, ms: 50 },
      { what: 'update', step: 0, from: 0.25, share: 0.75, ms: 350 },
    ])
    expect(lanes[1]?.area).toContain('M0 100L0.000 50.00')
    expect(ticks.map(({ ms }) => ms)).toEqual([0, 50, 100, 150])
  })

  test('is empty for a duration of zero', () => {
    const none = { ...shown, untilMs: 0, pictures: [{ ...shown.pictures[1]!, inFlight: [] }] }
    expect(prepareTimeline(none)).toMatchObject({ most: 0, ticks: [], lanes: [{ area: '' }] })
  })
})
