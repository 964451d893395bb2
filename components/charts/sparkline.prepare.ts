interface SparklineShape {
  /** One SVG path for each stretch without gaps. */
  lines: string[]
  /** The same paths, closed at the zero line. */
  areas: string[]
  zero: number
  thresholds: number[]
  last: { x: number; y: number } | null
}

const PAD = 1.5

/**
 * Prepares equally spaced readings, oldest first. Null is a gap. The scale includes zero, the thresholds and `top`;
 * with `fit`, only the readings. y grows downwards.
 */
export function prepareSparkline(
  readings: readonly (number | null)[],
  width: number,
  height: number,
  thresholds: readonly number[] = [],
  { fit = false, top = 0 }: { fit?: boolean; top?: number } = {},
): SparklineShape {
  const values = [
    ...(fit ? [] : [0, top, ...thresholds]),
    ...readings.filter((reading) => reading !== null),
  ]
  const low = Math.min(...values)
  const range = Math.max(...values) - low
  // Equal readings are drawn in the middle of their own scale.
  const span = range > 0 ? range : 1
  const base = fit && range === 0 ? low - 0.5 : low
  const step = readings.length > 1 ? width / (readings.length - 1) : 0
  const yOf = (value: number) => round(height - PAD - ((value - base) / span) * (height - 2 * PAD))
  const runs: { x: number; y: number }[][] = [[]]
  for (const [i, reading] of readings.entries()) {
    if (reading === null) runs.push([])
    else runs.at(-1)?.push({ x: round(i * step), y: yOf(reading) })
  }
  const drawn = runs.filter((points) => points.length > 0)
  const zero = yOf(0)
  const lines = drawn.map((points) =>
    points.length === 1
      ? `M${points[0]?.x} ${points[0]?.y}h0.01`
      : `M${points.map(({ x, y }) => `${x} ${y}`).join('L')}`,
  )
  return {
    lines,
    areas: drawn.map(
      (points, i) => `${lines[i]}L${points.at(-1)?.x} ${zero}L${points[0]?.x} ${zero}Z`,
    ),
    zero,
    thresholds: thresholds.map(yOf),
    last: readings.at(-1) === null ? null : (drawn.at(-1)?.at(-1) ?? null),
  }
}

function round(n: number): number {
  return Math.round(n * 100) / 100
}
