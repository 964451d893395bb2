import { significant } from '../format/numbers.ts'

/** The steps, with an extra one between two that are further apart than the usual distance of the run. */
export function withGaps(steps: readonly number[]): number[] {
  const distances = steps.slice(1).map((step, at) => step - (steps[at] as number))
  const usual = distances.toSorted((a, b) => a - b)[(distances.length - 1) >> 1] ?? 1
  return steps.flatMap((step, at) => {
    const before = steps[at - 1]
    return before !== undefined && step - before > usual ? [before + usual, step] : [step]
  })
}

/** An even selection of at most this many steps. */
export function pickTicks(steps: readonly number[], most: number): number[] {
  if (steps.length <= most) return [...steps]
  const every = Math.ceil((steps.length - 1) / (most - 1))
  return steps.filter((_, at) => at % every === 0)
}

/** Three to six round values that include both. */
export function niceTicks(low: number, high: number): { at: number; label: string }[] {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return [{ at: 0, label: '0' }]
  const span = high - low || Math.abs(high) || 1
  const raw = span / 4
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((one) => one >= raw) ?? raw
  const first = Math.floor(low / step)
  const last = Math.max(first + 1, Math.ceil(high / step))
  return Array.from({ length: last - first + 1 }, (_, at) => {
    const value = (first + at) * step
    return {
      at: value,
      label: significant(Math.abs(value) < step / 1e6 ? 0 : value, 4).replace('-', '−'),
    }
  })
}
