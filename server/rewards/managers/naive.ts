import { scoreByRule } from '../scoring/by-rule.ts'
import { scoreSample } from '../scoring/score-sample.ts'
import type { RewardManager } from './manager.ts'

/** Upstream's `naive` manager: each sample by the rule its data source selects, or by whatever else scores the batch. */
export const naiveManager: RewardManager = {
  name: 'naive',
  runRule: scoreByRule,
  run: scoreSample,
}
