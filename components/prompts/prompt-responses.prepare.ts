import type { SampleRowDto } from '../../server/contract/pages.ts'

/**
 * The samples of a group in reading order: the highest score, the lowest score, then the others by descending score.
 */
export interface Responses<T> {
  listed: T[]
  /** The sample with the highest score; substituted scores do not count. Null if all counted scores are equal. */
  best: T | null
  /** The sample with the lowest score; substituted scores do not count. Null if all counted scores are equal. */
  worst: T | null
}

type Scored = Pick<SampleRowDto, 'index' | 'score' | 'substituted'>

/**
 * Orders the samples of a group. Failed and substituted samples come last and are never best or worst. If `samples` is
 * only a part of the group, `ends` are the samples with the highest and the lowest score of the whole group, or null
 * while they are unknown; then no sample is best or worst.
 */
export function responsesOf<T extends Scored>(
  samples: readonly T[],
  ends: readonly T[] | null = [],
): Responses<T> {
  const scoreOf = ({ score, substituted }: T) => (substituted ? null : score)
  const byIndex = new Map([...(ends ?? []), ...samples].map((sample) => [sample.index, sample]))
  const byScore = [...byIndex.values()].toSorted((a, b) => {
    const [x, y] = [scoreOf(a), scoreOf(b)]
    if (x === null || y === null)
      return Number(x === null) - Number(y === null) || a.index - b.index
    return y - x || a.index - b.index
  })
  const counted = byScore.filter((sample) => scoreOf(sample) !== null)
  const [best, worst] = [counted[0], counted.at(-1)]
  if (
    ends === null ||
    best === undefined ||
    worst === undefined ||
    scoreOf(best) === scoreOf(worst)
  ) {
    return { listed: byScore, best: null, worst: null }
  }
  const others = byScore.filter((sample) => sample !== best && sample !== worst)
  return { listed: [best, worst, ...others], best, worst }
}
