import { describe, expect, it } from 'vitest'
import { isRewardOpsError } from '../../errors.ts'
import { aggregateMetrics } from './gym-metrics.ts'

interface Aggregated {
  group_level_metrics: Record<string, unknown>[]
  agent_metrics: Record<string, number>
  key_metrics: Record<string, number>
}
const of = (verify_responses: object[]) => aggregateMetrics({ verify_responses }) as Aggregated
const row = (task: number, rollout: number, fields: object) => ({
  _ng_task_index: task,
  _ng_rollout_index: rollout,
  ...fields,
})
const sample = { agent_ref: { name: 'agent' } }

describe('metrics of verified responses', () => {
  // Expected values are the output of NeMo-Gym's compute_aggregate_metrics for these responses.
  it('equal those of NeMo-Gym to the last digit', () => {
    const { group_level_metrics, agent_metrics, key_metrics } = of([
      row(0, 0, { reward: 1, acc: true, response: { usage: { total_tokens: 10 } } }),
      row(0, 1, { reward: 0, acc: false, score: 0.25, response: { usage: { total_tokens: 30 } } }),
      row(0, 2, { reward: 0.5, acc: true, response: { usage: null } }),
      row(7, 0, { reward: 0.5, acc: true, name: 'x', response: {} }),
      row(3, 0, { reward: -1, acc: false }),
      row(3, 1, { reward: 2, acc: false, score: 1 }),
    ])
    expect(agent_metrics).toEqual({
      ...{ 'max/acc': 1, 'max/reward': 2, 'max/score': 1, 'max/total_tokens': 30 },
      ...{ 'mean/acc': 0.5, 'mean/reward': 0.5, 'mean/score': 0.625, 'mean/total_tokens': 20 },
      ...{ 'median/acc': 0.5, 'median/reward': 0.5, 'median/score': 0.625 },
      ...{ 'median/total_tokens': 20, 'min/acc': 0, 'min/reward': -1, 'min/score': 0.25 },
      ...{ 'min/total_tokens': 10, 'std/acc': 0.5477225575051661, 'std/reward': 1 },
      ...{ 'std/score': 0.5303300858899106, 'std/total_tokens': 14.142135623730951 },
    })
    expect(key_metrics).toEqual({
      ...{ 'mean/acc': 0.5, 'mean/reward': 0.5, 'mean/score': 0.625, 'mean/total_tokens': 20 },
    })
    expect(group_level_metrics).toEqual([
      {
        ...{ _ng_task_index: 0, num_rollouts: 3, sample },
        ...{ 'max/acc': 1, 'mean/acc': 0.6666666666666666, 'median/acc': 1, 'min/acc': 0 },
        ...{ 'std/acc': 0.5773502691896258, 'max/reward': 1, 'mean/reward': 0.5 },
        ...{ 'median/reward': 0.5, 'min/reward': 0, 'std/reward': 0.5 },
        // A number that occurs in only one of several responses gets no standard deviation.
        ...{ 'max/score': 0.25, 'mean/score': 0.25, 'median/score': 0.25, 'min/score': 0.25 },
        ...{ 'max/total_tokens': 30, 'mean/total_tokens': 20, 'median/total_tokens': 20 },
        ...{ 'min/total_tokens': 10, 'std/total_tokens': 14.142135623730951 },
      },
      {
        ...{ _ng_task_index: 3, num_rollouts: 2, sample },
        ...{ 'max/acc': 0, 'mean/acc': 0, 'median/acc': 0, 'min/acc': 0, 'std/acc': 0 },
        ...{ 'max/reward': 2, 'mean/reward': 0.5, 'median/reward': 0.5, 'min/reward': -1 },
        ...{ 'std/reward': 2.1213203435596424 },
        ...{ 'max/score': 1, 'mean/score': 1, 'median/score': 1, 'min/score': 1 },
      },
      {
        ...{ _ng_task_index: 7, num_rollouts: 1, sample },
        ...{ 'max/acc': 1, 'mean/acc': 1, 'median/acc': 1, 'min/acc': 1, 'std/acc': 0 },
        ...{ 'max/reward': 0.5, 'mean/reward': 0.5, 'median/reward': 0.5, 'min/reward': 0.5 },
        ...{ 'std/reward': 0 },
      },
    ])
  })

  it('leave out failed responses, and are empty for no responses', () => {
    const failed = { reward: 0, _ng_failure_class: 'judge_failed', _ng_failure_judge_error: 'x' }
    const { agent_metrics, group_level_metrics } = of([
      row(0, 0, { reward: 1 }),
      row(0, 1, failed),
      row(1, 0, failed),
      row(2, 0, { reward: 0, mask_sample: true }),
    ])
    expect(agent_metrics['mean/reward']).toBe(1)
    expect(group_level_metrics).toMatchObject([{ _ng_task_index: 0, num_rollouts: 1 }])
    const none = { agent_metrics: {}, group_level_metrics: [], key_metrics: {} }
    expect(of([])).toEqual(none)
    expect(of([row(0, 0, failed)])).toEqual(none)
  })

  it('are refused for a body without a list of responses', () => {
    for (const body of [{}, { verify_responses: 1 }, [], { verify_responses: [1] }]) {
      try {
        aggregateMetrics(body)
        expect.unreachable()
      } catch (error) {
        expect(isRewardOpsError(error) && error.reason).toBe('invalid_input')
      }
    }
  })
})
