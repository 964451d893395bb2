import { z } from 'zod'
import { RESULT_COLUMNS } from '../../../server/contract/csv-cells.ts'
import { describeIssues } from '../../../server/contract/describe-issues.ts'
import { ANNOTATIONS_COLUMN } from '../../../server/contract/export.ts'
import { SampleInput } from '../../../server/contract/trainer.ts'
import type { JsonObject } from './parse-json.ts'
import type { GivenScores, Rollout } from './rollout.ts'

const SampleLine = SampleInput.safeExtend({
  run: z.string().min(1).max(256).nullish(),
  step: z.int().min(0).max(2_147_483_647).nullish(),
  split: z.enum(['train', 'val']).nullish(),
})

/** Our own JSON Lines: a line has at least these three. */
export function looksLikeSampleLine(first: JsonObject): boolean {
  return 'uid' in first && 'dataSource' in first && 'response' in first
}

/** Fields of an export that the service sets and does not take; reward extra info comes with its score. */
const TOLD = [
  ...RESULT_COLUMNS.filter((name) => name !== 'rewardExtraInfo'),
  ...(['batchId', 'index', ANNOTATIONS_COLUMN] as const),
]

/**
 * A line of our own format: what `batches.submit` takes as a sample, optionally with `run`, `step` and `split`, and with what
 * an export adds. A score that a failure policy put there is none: such a sample is scored again. Reward extra info stays
 * with a score that is kept.
 * @throws Error naming the field.
 */
export function readSampleLine(line: JsonObject, scores: GivenScores): Rollout[] {
  const given = { ...line }
  const isSubstitute =
    'status' in given && (given.status !== 'scored' || given.substituted === true)
  for (const key of TOLD) delete given[key]
  const hasScore = typeof given.score === 'number' && !isSubstitute
  if (!hasScore || scores === 'log' || isEmptyObject(given.rewardExtraInfo)) {
    delete given.rewardExtraInfo
  }
  const parsed = SampleLine.safeParse(given)
  if (!parsed.success) throw new Error(describeIssues(parsed.error))
  const { run, step, split, score, ...sample } = parsed.data
  const logged = hasScore && scores === 'log'
  return [
    {
      sample: {
        ...sample,
        ...(hasScore && !logged ? { score } : {}),
        ...(logged ? { extraInfo: { ...sample.extraInfo, logged_score: score } } : {}),
      },
      run: run ?? null,
      step: step ?? null,
      split: split ?? null,
    },
  ]
}

function isEmptyObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}
