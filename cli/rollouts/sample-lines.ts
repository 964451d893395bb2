import { z } from 'zod'
import { describeIssues } from '../../server/wire/describe-issues.ts'
import { SampleInput } from '../../server/wire/trainer.ts'
import type { JsonObject } from './parse-json.ts'
import type { Rollout } from './rollout.ts'

const SampleLine = SampleInput.extend({
  run: z.string().min(1).max(256).nullish(),
  step: z.int().min(0).max(2_147_483_647).nullish(),
})

/** Our own JSON Lines: a line has at least these three. */
export function looksLikeSampleLine(first: JsonObject): boolean {
  return 'uid' in first && 'dataSource' in first && 'response' in first
}

/**
 * A line of our own format: what `batches.submit` takes as a sample, optionally with `run` and `step`.
 * @throws Error naming the field.
 */
export function readSampleLine(line: JsonObject): Rollout[] {
  const parsed = SampleLine.safeParse(line)
  if (!parsed.success) throw new Error(describeIssues(parsed.error))
  const { run, step, ...sample } = parsed.data
  return [{ sample, run: run ?? null, step: step ?? null }]
}
