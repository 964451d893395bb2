/** A shared score scale: a position means the same score in every row. */
export interface ScoreScale {
  min: number
  max: number
}

interface Dot {
  /** Position along the scale, 0 to 1. */
  x: number
  count: number
}

/**
 * Places the scores of a group in at most `slots` positions; scores at one position become one larger dot. A scale
 * without extent places all scores in the middle.
 */
export function prepareDots(
  scores: readonly (number | null)[],
  scale: ScoreScale,
  slots = 48,
): { dots: Dot[]; withoutScore: number } {
  const counts = new Map<number, number>()
  let withoutScore = 0
  const extent = scale.max - scale.min
  for (const score of scores) {
    if (score === null) {
      withoutScore++
      continue
    }
    const x = extent > 0 ? Math.min(1, Math.max(0, (score - scale.min) / extent)) : 0.5
    const slot = Math.round(x * (slots - 1))
    counts.set(slot, (counts.get(slot) ?? 0) + 1)
  }
  const dots = [...counts]
    .sort(([a], [b]) => a - b)
    .map(([slot, count]) => ({ x: extent > 0 ? slot / (slots - 1) : 0.5, count }))
  return { dots, withoutScore }
}

/**
 * The radius in pixels of a dot for `count` scores: its area grows linearly with the count, up to a radius of 5.5 px.
 */
export function dotRadius(count: number): number {
  return Math.min(5.5, 2.4 * Math.sqrt(1 + (count - 1) * 0.55))
}
