import { type ChangeObject, diffLines, diffWordsWithSpace } from 'diff'
import type { TextMark } from '../../rollouts/text-marks.ts'

export interface TextDiff {
  /** `lines` if too many words differ to compare by word. `none` if the texts are too different or too long. */
  unit: 'words' | 'lines' | 'none'
  left: TextMark[]
  right: TextMark[]
  /** Share of the longer text that also occurs in the shorter text, 0 to 1. */
  common: number
}

/**
 * Maximum number of differing words, and of differing lines. The time grows with their square: 1,500 words take 0.1 s.
 * A time limit instead would give different results for the same texts on a busy machine.
 */
const MAX_WORDS = 1_500
const MAX_LINES = 700
/**
 * Common text shorter than this between two differences counts as different. Single common words would break up the
 * marks.
 */
const MIN_COMMON_CHARS = 12
/** Texts with a smaller common share have no marks, because nearly every word would be marked. */
const MIN_COMMON_SHARE = 0.1

export function diffTexts(left: string, right: string): TextDiff {
  const words = diffWordsWithSpace(left, right, { maxEditLength: MAX_WORDS })
  const changes = words ?? diffLines(left, right, { maxEditLength: MAX_LINES })
  if (changes === undefined) return { unit: 'none', left: [], right: [], common: 0 }
  const marks = marksOf(changes, left, right)
  if (marks.common < MIN_COMMON_SHARE) {
    return { unit: 'none', left: [], right: [], common: marks.common }
  }
  return { unit: words === undefined ? 'lines' : 'words', ...marks }
}

function marksOf(changes: readonly ChangeObject<string>[], left: string, right: string) {
  const marks = { left: [] as TextMark[], right: [] as TextMark[] }
  const at = { left: 0, right: 0 }
  let common = 0
  for (const [i, { value, added, removed }] of changes.entries()) {
    const isBridge =
      !added &&
      !removed &&
      i > 0 &&
      i + 1 < changes.length &&
      value.length < MIN_COMMON_CHARS &&
      !value.includes('\n')
    if (!removed) at.right = add(marks.right, at.right, value.length, added || isBridge, 'added')
    if (!added) at.left = add(marks.left, at.left, value.length, removed || isBridge, 'removed')
    if (!added && !removed && !isBridge) common += value.length
  }
  const longer = Math.max(left.length, right.length)
  return { ...marks, common: longer === 0 ? 1 : common / longer }
}

/** Adds a mark, or extends the previous mark if the two touch. Returns the position after the mark. */
function add(
  marks: TextMark[],
  start: number,
  length: number,
  isDifferent: boolean,
  kind: 'added' | 'removed',
): number {
  const end = start + length
  if (!isDifferent) return end
  const before = marks.at(-1)
  if (before?.end === start) before.end = end
  else marks.push({ start, end, kind })
  return end
}
