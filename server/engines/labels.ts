import { broken, failure, finiteScore } from './answer.ts'
import type { EngineFailure } from './engine.ts'

/**
 * Which of a model's labels is its score: the last one, as trainers take it, unless the registration names another by its
 * index or name. The same rule holds on every engine, so one checkpoint has the same sign wherever it is served.
 */

/** The index that a label names: digits, or digits after `LABEL_`. Null for any other name. */
export function labelIndex(label: unknown): number | null {
  const digits = typeof label === 'string' ? /^(?:label_?)?(\d+)$/i.exec(label)?.[1] : undefined
  return digits === undefined ? null : Number(digits)
}

/** The score of the named label in a list that has one number for each label; `where` names the list in failures. */
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

/** A registration that names a label which the model does not have: every request would meet it. */
export function noSuchLabel(label: string, has: string): EngineFailure {
  return broken('unparseable', `the registration names label "${label}"; the model has ${has}`)
}
