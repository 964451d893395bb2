import type { PostProcessed } from '../../contract/post-processed.ts'
import type { FunctionRef } from '../../contract/resolved-reward.ts'
import type { FunctionCaller, FunctionCallOptions } from './function-caller.ts'

export const POST_PROCESS_METHODS = ['postProcessScores', 'post_process_scores']

export function postProcesses(methods: readonly string[]): boolean {
  return methods.some((method) => POST_PROCESS_METHODS.includes(method))
}

export interface ScoredGroup {
  uid: string
  /** The members in order of index, without failed members and members submitted with a score. */
  members: {
    index: number
    dataSource: string
    score: number
    rewardExtraInfo: Record<string, unknown>
  }[]
}

/**
 * Post-processes the scores of a group (verl's `post_process_scores`): the method receives the scores and the group and
 * must return one finite number for each score. Any other result fails the group: if it kept its old scores, they would
 * look post-processed.
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

export function readScores(value: unknown, members: number): PostProcessed {
  const failed = (detail: string): PostProcessed => ({
    ok: false,
    reason: 'function_error',
    detail: `post_process_scores ${detail}`,
  })
  if (!Array.isArray(value)) return failed('did not return a list of scores')
  if (value.length !== members) {
    return failed(`returned ${value.length} scores for a group of ${members}`)
  }
  const at = value.findIndex((score) => typeof score !== 'number' || !Number.isFinite(score))
  if (at < 0) return { ok: true, scores: value as number[] }
  if (typeof value[at] === 'number') {
    const detail = `post_process_scores returned ${value[at]} at index ${at}`
    return { ok: false, reason: 'non_finite', detail }
  }
  return failed(`did not return a number at index ${at}`)
}
