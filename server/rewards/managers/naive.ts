import { scoreByRule } from '../scoring/by-rule.ts'
import { scoreSample } from '../scoring/score-sample.ts'
import type { RewardManager } from './manager.ts'

/** verl's `naive` manager: scores each sample by the rule of its data source, or by the batch's scorer. */
export const naiveManager: RewardManager = {
  name: 'naive',
  runRule: scoreByRule,
  run: scoreSample,
}
