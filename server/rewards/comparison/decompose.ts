/** Samples of one class in one unit of the bootstrap: a group or a step. */
export interface Cell {
  /** The unit's number on its side (before or after), from 0 without gaps. */
  unit: number
  /** The class, such as a data source, a verdict or a prompt. */
  key: string
  n: number
  sum: number
}

/** A class on one side (before or after); `mean` is null if there are no samples. */
export interface ClassSide {
  n: number
  share: number
  mean: number | null
}

/** A contribution to the change of the mean. Without two groups or steps per side, the standard error is null. */
export interface Contribution {
  value: number
  standardError: number | null
}

export interface Part {
  key: string
  before: ClassSide
  after: ClassSide
  /** Contribution of the change of the class's share. */
  mix: Contribution
  /** Contribution of the change of the class's mean. */
  within: Contribution
  total: Contribution
}

export interface Decomposition {
  parts: Part[]
  mix: Contribution
  /** The difference of the means, which is the sum of all parts. */
  change: Contribution
}

/**
 * Maximum number of cells that the bootstrap visits, exceeded only if {@link MIN_REPLICATES} need more. 2 million take
 * about 15 ms.
 */
const MAX_VISITS = 2_000_000
/** With 200 replicates, the standard error is accurate to about 5 %. */
const MAX_REPLICATES = 200
const MIN_REPLICATES = 64

/**
 * Splits the change of a mean into contributions of classes, without a residual (Kitagawa 1955, midpoint form). With
 * shares s and means m before and after: `mix = Δs · (m̄ − M̄)` and `within = s̄ · Δm`, where a bar is the mean of both
 * sides, and M̄ is the mean of the overall means. Subtracting M̄ makes a growing class with low scores count as a loss.
 * If a class is missing on one side, its mean on the other side is used.
 *
 * Standard errors come from a bootstrap that draws whole units, because the samples of a group are not independent. The
 * generator yields before each replicate.
 */
export function* decompose(
  before: readonly Cell[],
  after: readonly Cell[],
): Generator<void, Decomposition> {
  const keys = [...new Set([...before, ...after].map(({ key }) => key))]
  const classOf = new Map(keys.map((key, at) => [key, at]))
  const [first, last] = [sideOf(before, classOf), sideOf(after, classOf)]
  const values = statisticsOf(first, last)
  const errors = yield* standardErrors(first, last)
  const contribution = (at: number): Contribution => ({
    value: values[at] as number,
    standardError: errors?.[at] ?? null,
  })
  const n = keys.length
  return {
    parts: keys.map((key, at) => ({
      key,
      before: classSide(first, at),
      after: classSide(last, at),
      mix: contribution(at),
      within: contribution(n + at),
      total: contribution(2 * n + at),
    })),
    mix: contribution(3 * n),
    change: contribution(3 * n + 1),
  }
}

interface Side {
  units: number
  /** The cells of unit u are `start[u]` to `start[u + 1]`. */
  start: Int32Array
  cls: Int32Array
  n: Float64Array
  sum: Float64Array
  totals: Totals
}

interface Totals {
  n: Float64Array
  sum: Float64Array
}

function sideOf(cells: readonly Cell[], classOf: ReadonlyMap<string, number>): Side {
  const units = cells.reduce((most, { unit }) => Math.max(most, unit + 1), 0)
  const start = new Int32Array(units + 1)
  for (const { unit } of cells) start[unit + 1] = (start[unit + 1] as number) + 1
  for (let u = 0; u < units; u++) start[u + 1] = (start[u + 1] as number) + (start[u] as number)
  const next = start.slice()
  const cls = new Int32Array(cells.length)
  const n = new Float64Array(cells.length)
  const sum = new Float64Array(cells.length)
  const totals = { n: new Float64Array(classOf.size), sum: new Float64Array(classOf.size) }
  for (const cell of cells) {
    const at = next[cell.unit] as number
    const of = classOf.get(cell.key) as number
    next[cell.unit] = at + 1
    cls[at] = of
    n[at] = cell.n
    sum[at] = cell.sum
    totals.n[of] = (totals.n[of] as number) + cell.n
    totals.sum[of] = (totals.sum[of] as number) + cell.sum
  }
  return { units, start, cls, n, sum, totals }
}

function classSide({ totals }: Side, at: number): ClassSide {
  const n = totals.n[at] as number
  const all = total(totals.n)
  return {
    n,
    share: all === 0 ? 0 : n / all,
    mean: n === 0 ? null : (totals.sum[at] as number) / n,
  }
}

function total(values: Float64Array): number {
  return values.reduce((sum, value) => sum + value, 0)
}

/** Returns, in this order: `mix` of each class, `within` of each, `total` of each, the sum of `mix`, the change. */
function statisticsOf(
  { totals: a }: Pick<Side, 'totals'>,
  { totals: b }: Pick<Side, 'totals'>,
): Float64Array {
  const classes = a.n.length
  const [nA, nB] = [total(a.n), total(b.n)]
  const [overallA, overallB] = [total(a.sum) / nA, total(b.sum) / nB]
  const overall = (overallA + overallB) / 2
  const values = new Float64Array(3 * classes + 2)
  let allMix = 0
  for (let at = 0; at < classes; at++) {
    const [inA, inB] = [a.n[at] as number, b.n[at] as number]
    if (inA === 0 && inB === 0) continue
    const [sA, sB] = [inA / nA, inB / nB]
    const mA = inA === 0 ? (b.sum[at] as number) / inB : (a.sum[at] as number) / inA
    const mB = inB === 0 ? mA : (b.sum[at] as number) / inB
    const mix = (sB - sA) * ((mA + mB) / 2 - overall)
    const within = ((sA + sB) / 2) * (mB - mA)
    values[at] = mix
    values[classes + at] = within
    values[2 * classes + at] = mix + within
    allMix += mix
  }
  values[3 * classes] = allMix
  // The change is computed from the means, because the rounding errors of a sum of the parts would depend on the
  // classes.
  values[3 * classes + 1] = overallB - overallA
  return values
}

function* standardErrors(a: Side, b: Side): Generator<void, Float64Array | null> {
  if (a.units < 2 || b.units < 2) return null
  const visits = a.cls.length + b.cls.length
  const replicates = Math.max(
    MIN_REPLICATES,
    Math.min(MAX_REPLICATES, Math.floor(MAX_VISITS / visits)),
  )
  const random = randomOf(visits)
  const mean = new Float64Array(3 * a.totals.n.length + 2)
  const squares = new Float64Array(mean.length)
  for (let at = 1; at <= replicates; at++) {
    yield
    const values = statisticsOf(drawn(a, random), drawn(b, random))
    for (let c = 0; c < mean.length; c++) {
      const delta = (values[c] as number) - (mean[c] as number)
      mean[c] = (mean[c] as number) + delta / at
      squares[c] = (squares[c] as number) + delta * ((values[c] as number) - (mean[c] as number))
    }
  }
  return squares.map((square) => Math.sqrt(square / (replicates - 1)))
}

function drawn(side: Side, random: () => number): { totals: Totals } {
  const { units, start, cls, n, sum } = side
  const size = side.totals.n.length
  const totals = { n: new Float64Array(size), sum: new Float64Array(size) }
  for (let draw = 0; draw < units; draw++) {
    const unit = Math.floor(random() * units)
    const end = start[unit + 1] as number
    for (let at = start[unit] as number; at < end; at++) {
      const of = cls[at] as number
      totals.n[of] = (totals.n[of] as number) + (n[at] as number)
      totals.sum[of] = (totals.sum[of] as number) + (sum[at] as number)
    }
  }
  return { totals }
}

/** Mulberry32, a seeded random number generator, so that equal data give equal standard errors. */
function randomOf(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
