export interface SparklineShape {
  /** One path per stretch without gaps. */
  lines: string[]
  /** The same paths, closed to the baseline. */
  areas: string[]
  /** The newest reading, if any. */
  last: { x: number; y: number } | null
}

/**
 * Prepares equally spaced readings, oldest first; null is a gap. The baseline is zero and the top is the largest
 * reading.
 */
export function prepareSparkline(
  readings: readonly (number | null)[],
  width: number,
  height: number,
): SparklineShape {
  const top = Math.max(0, ...readings.map((r) => r ?? 0))
  const step = readings.length > 1 ? width / (readings.length - 1) : 0
  const pad = 1.5
  const yOf = (r: number) =>
    top === 0 ? height - pad : height - pad - (r / top) * (height - 2 * pad)
  const runs: { x: number; y: number }[][] = []
  let run: { x: number; y: number }[] | null = null
  readings.forEach((reading, i) => {
    if (reading === null) {
      run = null
      return
    }
    if (run === null) {
      run = []
      runs.push(run)
    }
    run.push({ x: round(i * step), y: round(yOf(reading)) })
  })
  const lines = runs.map((points) =>
    points.length === 1
      ? `M${points[0]?.x} ${points[0]?.y}h0.01`
      : `M${points.map((p) => `${p.x} ${p.y}`).join('L')}`,
  )
  const areas = runs.map((points, i) => {
    const from = points[0]?.x ?? 0
    const to = points.at(-1)?.x ?? 0
    return `${lines[i]}L${to} ${height}L${from} ${height}Z`
  })
  const end = readings.at(-1) === null ? null : (runs.at(-1)?.at(-1) ?? null)
  return { lines, areas, last: end }
}

function round(n: number): number {
  return Math.round(n * 100) / 100
}
