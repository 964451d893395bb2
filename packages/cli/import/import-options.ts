import type { RewardSpec } from '../../../server/contract/trainer.ts'
import type { GivenScores } from '../rollouts/read-rollouts.ts'

/** What an import does with its files; two imports with the same and with the same files are one. */
export interface ImportOptions {
  /** Of all rows, whatever they say; null: what they say. */
  run: string | null
  step: number | null
  split: 'train' | 'val' | null
  groupSize: number | null
  /** How rows without a score are scored; empty: by the rule of their data source. */
  reward: Partial<RewardSpec>
  dataSource: string | null
  scores: GivenScores
  skipBad: boolean
  /** Another word makes another import of the same files. */
  key: string
}

/** One step's rows: they become a batch. */
export interface ImportStep {
  run: string
  step: number
  split: 'train' | 'val'
}

/** Tells steps apart. */
export function stepKey({ run, step, split }: ImportStep): string {
  return `${step} ${split} ${run}`
}
