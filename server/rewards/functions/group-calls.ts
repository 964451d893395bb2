import type { PostProcessed } from '../../contract/post-processed.ts'
import type { FunctionRef } from '../../contract/resolved-reward.ts'
import type { FunctionCaller, FunctionCallOptions } from './function-caller.ts'

/** The method that changes the scores of a group at its completion, under both its names. */
export const POST_PROCESS_METHODS = ['postProcessScores', 'post_process_scores']

/** Whether a function's object post-processes the scores of its groups, by the names of its methods. */
export function postProcesses(methods: readonly string[]): boolean {
  return methods.some((method) => POST_PROCESS_METHODS.includes(method))
}

/** A scored group, as its post-processing is told of it. */
export interface ScoredGroup {
  uid: string
  /** The scored members, in order of their index; failed ones, and those that came with a score, are not among them. */
  members: {
    index: number
    dataSource: string
    score: number
    rewardExtraInfo: Record<string, unknown>
  }[]
}

/**
 * Changes the scores of a group (upstream's `post_process_scores`): called with the scores and the group, it gives as many
 * finite numbers. Anything else is the group's failure: an unchanged score would look like a changed one.
 */
export async function postProcessGroup(
  functions: FunctionCaller,
  ref: FunctionRef,
  group: ScoredGroup,
  options: FunctionCallOptions,
): Promise<PostProcessed> {
  const scores = group.members.map((member) => member.score)
  const called = await functions.method(ref, POST_PROCESS_METHODS, [scores, group], options)
  return called.ok ? readScores(called.value, scores.length) : called
}

/** Reads what a post-processing gave: a list of `members` finite numbers. */
export function readScores(value: unknown, members: number): PostProcessed {
  const failed = (detail: string): PostProcessed => ({
    ok: false,
    reason: 'function_error',
    detail: `post_process_scores ${detail}`,
  })
  if (!Array.isArray(value)) return failed('gave no list of scores')
  if (value.length !== members) {
    return failed(`gave ${value.length} scores for a group of ${members}`)
  }
  const at = value.findIndex((score) => typeof score !== 'number' || !Number.isFinite(score))
  if (at < 0) return { ok: true, scores: value as number[] }
  if (typeof value[at] === 'number') {
    const detail = `post_process_scores gave ${value[at]} at ${at}`
    return { ok: false, reason: 'non_finite', detail }
  }
  return failed(`gave at ${at} what is no number`)
}
