import type { ComparedGroups } from '../../contract/compare.ts'
import { grpoAdvantages } from '../advantages.ts'
import { pairCounts, tauB } from './kendall.ts'
import type { MatchedSamples } from './match-samples.ts'

/** Advantages closer to 0 than this count as 0, because they are rounding errors of the mean. */
const MIN_ADVANTAGE = 1e-9

/** Comparison of two rewards by group. Each array has one entry per group, unless noted otherwise. */
export interface GroupColumns {
  /** Kendall's τ-b; NaN if undefined. */
  tau: Float64Array
  comparable: Float64Array
  reversed: Float64Array
  bestChanged: Uint8Array
  noSignalFirst: Uint8Array
  noSignalSecond: Uint8Array
  firstMean: Float64Array
  secondMean: Float64Array
  signFlipped: Int32Array
  /** One entry per sample; NaN in a group with one sample. */
  firstAdvantage: Float64Array
  secondAdvantage: Float64Array
  /** One entry per sample: 1 where the two advantages have opposite signs. */
  sampleSignFlipped: Uint8Array
  total: ComparedGroups
}

export function advantageSign(advantage: number): number {
  return Math.abs(advantage) < MIN_ADVANTAGE ? 0 : Math.sign(advantage)
}

/**
 * Compares two rewards within each group, over the members that both scored: order, best member, no-signal groups,
 * and the signs of GRPO's advantages, which decide the direction of the policy update.
 */
export function* compareGroups(matched: MatchedSamples): Generator<void, GroupColumns> {
  const { starts, first, second } = matched
  const groups = starts.length - 1
  const n = first.length
  const columns: GroupColumns = {
    tau: new Float64Array(groups).fill(Number.NaN),
    comparable: new Float64Array(groups),
    reversed: new Float64Array(groups),
    bestChanged: new Uint8Array(groups),
    noSignalFirst: new Uint8Array(groups),
    noSignalSecond: new Uint8Array(groups),
    firstMean: new Float64Array(groups),
    secondMean: new Float64Array(groups),
    signFlipped: new Int32Array(groups),
    firstAdvantage: new Float64Array(n).fill(Number.NaN),
    secondAdvantage: new Float64Array(n).fill(Number.NaN),
    sampleSignFlipped: new Uint8Array(n),
    total: nothing(),
  }
  let work = 0
  for (let group = 0; group < groups; group++) {
    const from = starts[group] as number
    const to = starts[group + 1] as number
    work += to - from
    if (work > 1_024) {
      work = 0
      yield
    }
    const a = first.subarray(from, to)
    const b = second.subarray(from, to)
    columns.firstMean[group] = meanOf(a)
    columns.secondMean[group] = meanOf(b)
    if (a.length >= 2) yield* compareGroup(columns, group, from, a, b)
  }
  const { total } = columns
  total.tau = total.tauGroups === 0 ? null : (total.tau as number) / total.tauGroups
  return columns
}

function* compareGroup(
  columns: GroupColumns,
  group: number,
  from: number,
  a: Float64Array,
  b: Float64Array,
): Generator<void, void> {
  const { total } = columns
  total.n++
  total.samples += a.length
  const counts = yield* pairCounts(a, b)
  const tau = tauB(counts)
  if (tau !== null) {
    columns.tau[group] = tau
    total.tau = (total.tau ?? 0) + tau
    total.tauGroups++
  }
  columns.comparable[group] = counts.concordant + counts.discordant
  columns.reversed[group] = counts.discordant
  total.comparable += counts.concordant + counts.discordant
  total.reversed += counts.discordant
  total.tiedFirst += counts.tiedFirst
  total.tiedSecond += counts.tiedSecond
  total.tiedBoth += counts.tiedBoth
  const noSignalFirst = counts.tiedFirst === counts.pairs
  const noSignalSecond = counts.tiedSecond === counts.pairs
  columns.noSignalFirst[group] = Number(noSignalFirst)
  columns.noSignalSecond[group] = Number(noSignalSecond)
  total.noSignalFirst += Number(noSignalFirst)
  total.noSignalSecond += Number(noSignalSecond)
  total.noSignalBoth += Number(noSignalFirst && noSignalSecond)
  if (!sharesBest(a, b)) {
    columns.bestChanged[group] = 1
    total.bestChanged++
  }
  const advantagesA = grpoAdvantages(Array.from(a))
  const advantagesB = grpoAdvantages(Array.from(b))
  for (let k = 0; k < a.length; k++) {
    const one = advantagesA[k] as number
    const other = advantagesB[k] as number
    columns.firstAdvantage[from + k] = one
    columns.secondAdvantage[from + k] = other
    const signA = advantageSign(one)
    const signB = advantageSign(other)
    const row = total.signs[signA + 1] as [number, number, number]
    row[(signB + 1) as 0 | 1 | 2]++
    if (signA * signB < 0) {
      columns.sampleSignFlipped[from + k] = 1
      columns.signFlipped[group]!++
      total.signFlipped++
    }
  }
}

function sharesBest(a: Float64Array, b: Float64Array): boolean {
  const bestA = a.reduce((most, score) => Math.max(most, score), Number.NEGATIVE_INFINITY)
  const bestB = b.reduce((most, score) => Math.max(most, score), Number.NEGATIVE_INFINITY)
  return a.some((score, at) => score === bestA && b[at] === bestB)
}

function meanOf(values: Float64Array): number {
  let sum = 0
  for (const value of values) sum += value / values.length
  return sum
}

function nothing(): ComparedGroups {
  return {
    ...{ n: 0, samples: 0, tau: null, tauGroups: 0, comparable: 0, reversed: 0 },
    ...{ tiedFirst: 0, tiedSecond: 0, tiedBoth: 0, bestChanged: 0 },
    ...{ noSignalFirst: 0, noSignalSecond: 0, noSignalBoth: 0, signFlipped: 0 },
    signs: [
      [0, 0, 0],
      [0, 0, 0],
      [0, 0, 0],
    ],
  }
}
