import { z } from 'zod'
import { EXPORTED_RESULT_COLUMNS } from '../../../server/contract/csv-cells.ts'
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

export function looksLikeSampleLine(first: JsonObject): boolean {
  return 'uid' in first && 'dataSource' in first && 'response' in first
}

const OF_SCORE: readonly string[] = ['rewardExtraInfo', 'verdict', 'extracted', 'rewards']

/** Fields of an export that the service sets and does not accept. */
const EXPORT_ONLY = [
  ...EXPORTED_RESULT_COLUMNS.filter((name) => !OF_SCORE.includes(name)),
  ...(['batchId', 'index', ANNOTATIONS_COLUMN] as const),
]

/**
 * Reads a line of the service's own format: a sample of `batches.submit`, optionally with `run`, `step`, `split` and
 * the fields that an export adds. A sample that failed, or whose score a failure policy substituted, is scored again.
 * Reward extra info and verdict are kept only with a kept score.
 * @throws Error naming the field
 */
export function readSampleLine(line: JsonObject, scores: GivenScores): Rollout[] {
  const given = { ...line }
  const isSubstitute =
    'status' in given && (given.status !== 'scored' || given.substituted === true)
  for (const key of EXPORT_ONLY) delete given[key]
  const hasScore = typeof given.score === 'number' && !isSubstitute
  if (isEmptyObject(given.rewardExtraInfo)) delete given.rewardExtraInfo
  if (!hasScore || scores === 'log') for (const key of OF_SCORE) delete given[key]
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
