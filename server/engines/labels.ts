import { broken, failure, finiteScore } from './answer.ts'
import type { EngineFailure } from './engine.ts'

/**
 * The score of a model with several labels is the score of the last label, as in trainers, unless the registration
 * names another label by index or name. All engines share this rule, so that a checkpoint's scores have the same sign
 * on every engine.
 */

/** Returns the index in a label's name: 3 for `3` and for `LABEL_3`. Returns null for any other name. */
export function labelIndex(label: unknown): number | null {
  const digits = typeof label === 'string' ? /^(?:label_?)?(\d+)$/i.exec(label)?.[1] : undefined
  return digits === undefined ? null : Number(digits)
}

/** Returns the score of a label from `list`, which has one number per label. `where` names the list in failures. */
export function labelScore(
  list: unknown,
  label: string | null | undefined,
  where: string,
): number | EngineFailure {
  if (!Array.isArray(list) || list.length === 0) {
    return failure('corrupt', 'unparseable', `${where} is not a list of numbers`)
  }
  if (label == null) return finiteScore(list[list.length - 1], `${where}[-1]`)
  const index = labelIndex(label)
  if (index === null || index >= list.length) return noSuchLabel(label, `${list.length} labels`)
  return finiteScore(list[index], `${where}[${index}]`)
}

export function noSuchLabel(label: string, has: string): EngineFailure {
  return broken('unparseable', `the registration names label "${label}"; the model has ${has}`)
}
