import type { z } from 'zod'
import { describeIssues } from '../../contract/describe-issues.ts'
import { RewardOpsError } from '../../errors.ts'

/** @throws RewardOpsError `invalid_input` naming the field */
export function parseBody<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const parsed = schema.safeParse(body)
  if (parsed.success) return parsed.data
  throw new RewardOpsError('invalid_input', describeIssues(parsed.error))
}
