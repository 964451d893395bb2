import type { RewardSpec } from '../../../server/contract/trainer.ts'
import type { GivenScores } from '../rollouts/read-rollouts.ts'

/** Options of an import. A repeated import with equal options and files adds nothing. */
export interface ImportOptions {
  /** Null if each row names its run. */
  run: string | null
  step: number | null
  split: 'train' | 'val' | null
  groupSize: number | null
  /** The reward that scores rows without a score. If it is empty, the rule of the row's data source scores them. */
  reward: Partial<RewardSpec>
  dataSource: string | null
  scores: GivenScores
  skipBad: boolean
  /** A part of the idempotency key, so that a different `key` imports the same files again. */
  key: string
}

/** One step of a run; its rows become one batch. */
export interface ImportStep {
  run: string
  step: number
  split: 'train' | 'val'
}

export function stepKey({ run, step, split }: ImportStep): string {
  return `${step} ${split} ${run}`
}
