import { z } from 'zod'
import { ruleByName, ruleForDataSource } from '../rules/registry.ts'
import { callOptions } from '../scoring/by-function.ts'
import type { RewardManager } from './manager.ts'
import { naiveManager } from './naive.ts'

export const remoteOptions = z.strictObject({
  num_workers: z
    .int()
    .min(1)
    .max(64)
    .default(1)
    .describe('Processes per worker, each with one call at a time'),
})

/**
 * verl's `remote` manager, for scorers with long computations: functions and built-in rules run in separate
 * processes, one call at a time, and a process is killed if its call times out. Other scorers run as usual.
 */
export const remoteManager: RewardManager = {
  name: 'remote',
  /** Not called: rules of `remote` are of kind `service`, so that no rule computes on the worker's event loop. */
  runRule: naiveManager.runRule,
  async run(sample, context) {
    const { reward, functions } = context
    if (reward.kind !== 'service') return naiveManager.run(sample, context)
    const rule =
      reward.rule === undefined ? ruleForDataSource(sample.dataSource) : ruleByName(reward.rule)
    // A rule that calls a service needs no process, because it waits instead of computing.
    if (rule === undefined) return naiveManager.run(sample, context)
    return functions.scoreByRule(sample, { ...reward, kind: 'rule' }, callOptions(context))
  },
}
