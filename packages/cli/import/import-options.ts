import type { RewardSpec } from '../../../server/contract/trainer.ts'
import type { GivenScores } from '../rollouts/read-rollouts.ts'

/** Options of an import. The same options and files identify the same import. */
export interface ImportOptions {
  /** Run of all rows; null: the run each row names. */
  run: string | null
  step: number | null
  split: 'train' | 'val' | null
  groupSize: number | null
  /** Reward for rows without a score; empty: the rule of their data source. */
  reward: Partial<RewardSpec>
  dataSource: string | null
  scores: GivenScores
  skipBad: boolean
  /** Distinguishes imports of the same files. */
  key: string
}

/** One step of a run; its rows become one batch. */
export interface ImportStep {
  run: string
  step: number
  split: 'train' | 'val'
}

/** Unique key of a step. */
export function stepKey({ run, step, split }: ImportStep): string {
  return `${step} ${split} ${run}`
}
