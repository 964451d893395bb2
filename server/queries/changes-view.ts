import {
  type BreakdownDto,
  type ChangePartDto,
  type ChangeRangeDto,
  type ChangesDto,
  type ChangesInput,
  type ContributionDto,
  MAX_SAMPLES_BY_GROUP,
  MIN_SHIFT_STEPS,
  OTHERS,
  type SuddenChangeDto,
} from '../contract/changes.ts'
import { Z_95 } from '../contract/intervals.ts'
import { MAX_STEPS } from '../contract/runs.ts'
import { restatesScore } from '../contract/verdicts.ts'
import { RewardOpsError, runNotFound } from '../errors.ts'
import { Memo } from '../memo.ts'
import {
  type Cell,
  type Contribution,
  type Decomposition,
  decompose,
} from '../rewards/comparison/decompose.ts'
import { findShifts } from '../rewards/comparison/find-shift.ts'
import type { Database } from '../store/database.ts'
import {
  type ChangeStepRow,
  changeSteps,
  componentCells,
  dataSourcesOfBatches,
  excludedSamples,
  groupCells,
  groupPrompts,
  lengthFigures,
  rollUpCells,
  type ScoredStepRow,
  scoredSteps,
} from '../store/sql/changes.ts'
import { runIdOf } from '../store/sql/monitor-views.ts'
import { inPortions } from './in-portions.ts'

/** Stale-while-revalidate: how long an answer is fresh, and how long after that it is still returned. */
const TTL_MS = 2_000
const STALE_MS = 60_000
const FOUND_STEPS = 2
/**
 * Minimum distance from 0, in standard errors, for a part to stand out (p ≈ 0.001). The value is high because many
 * parts are tested.
 */
const MIN_STANDS_OUT_Z = 3.3
const STANDS_OUT_SHARE = 0.5
/**
 * Maximum number of samples whose components are read from the samples; 5,000 samples take about 20 ms per component.
 * With more samples, roll-ups are used.
 */
const MAX_COMPONENT_SAMPLES = 32_768
/** Prompts can stand out only if the prompts that occur in both ranges have at least this share of the samples. */
const MIN_SHARED_PROMPTS = 0.3
/**
 * A data source stands out by its own change if its share of the change exceeds its share of the samples by this much,
 * or is nearly 1.
 */
const MIN_EXCESS_SHARE = 0.25
const MAX_OWN_SHARE = 0.95
const LISTED_PROMPTS = 10
/** Maximum number of listed parts of a dimension; the other parts are added up. */
const MAX_LISTED_PARTS = 24
const NOTHING: ContributionDto = { value: 0, low: null, high: null }

interface Sides<T> {
  before: T
  after: T
}

/** Explains the change of a run's mean score between two ranges of steps by parts that add up to the change. */
export class ChangesView {
  readonly #db: Database
  readonly #memo = new Memo<ChangesDto>(TTL_MS, STALE_MS)

  constructor(db: Database) {
    this.#db = db
  }

  /** @throws RewardOpsError `run_not_found`, `no_such_step`, `too_many_samples` */
  get(input: ChangesInput): Promise<ChangesDto> {
    return this.#memo.get(JSON.stringify(input), () => this.#compute(input))
  }

  async #compute(input: ChangesInput): Promise<ChangesDto> {
    const { name, split, dataSource = null } = input
    const runId = await runIdOf(this.#db, name)
    if (runId === undefined) throw runNotFound(name)
    const steps = await scoredSteps(this.#db, runId, split, MAX_STEPS)
    const { chosen, suddenChanges, ...sides } = sidesOf(steps, input)
    const [before, after] = await ofBoth(sides, (rows) => changeSteps(this.#db, rows))
    const total = sum([...before, ...after], ({ samples }) => samples)
    const byGroup = total <= MAX_SAMPLES_BY_GROUP
    if (!byGroup && dataSource !== null) {
      throw new RewardOpsError(
        'too_many_samples',
        `The two ranges together have ${total} samples. When filtered by data source, at most ${MAX_SAMPLES_BY_GROUP} can be compared.`,
        { hint: 'Choose fewer steps, or all data sources.' },
      )
    }
    const read = byGroup
      ? await this.#samplesByGroup({ before, after }, dataSource)
      : await this.#samplesByStep({ before, after })
    const hasBoth = read.before.length > 0 && read.after.length > 0
    // The service computes the splits while Postgres reads the other facts.
    const [splits, facts] = await Promise.all([
      hasBoth ? splitsOf(read, byGroup) : null,
      this.#facts({ before, after }, read, dataSource, byGroup),
    ])
    const change = splits && toDto(splits.byOutcome.change)
    const breakdowns =
      splits === null
        ? []
        : [
            toBreakdown('outcome', splits.byOutcome),
            toBreakdown('dataSource', splits.byDataSource),
            facts.components,
            splits.byPrompt,
          ]
    const { components: _, ...rest } = facts
    return {
      chosen,
      suddenChanges,
      ...rest,
      change,
      unit: byGroup ? 'group' : 'step',
      breakdowns,
      standsOut:
        change === null || chosen === 'latest' ? null : standsOut(breakdowns, change.value),
      prompts: hasBoth ? promptsOf(read) : [],
      rewardChanged: new Set([...before, ...after].map(({ reward_hash }) => reward_hash)).size > 1,
    }
  }

  /** Reads everything about both ranges except the samples, one query at a time. */
  async #facts(
    sides: Sides<ChangeStepRow[]>,
    read: Read,
    dataSource: string | null,
    byGroup: boolean,
  ) {
    return {
      before: await this.#side(sides.before, read.before, dataSource, byGroup),
      after: await this.#side(sides.after, read.after, dataSource, byGroup),
      excluded: await this.#excluded(sides, dataSource, byGroup),
      components: await this.#components(sides, dataSource),
      dataSources: await dataSourcesOfBatches(
        this.#db,
        [...sides.before, ...sides.after].map(({ id }) => id),
      ),
    }
  }

  /** Reads the samples of both ranges by group. A group is the unit of resampling. */
  async #samplesByGroup(sides: Sides<ChangeStepRow[]>, dataSource: string | null): Promise<Read> {
    const read = async (rows: readonly ChangeStepRow[]): Promise<ReadCell[]> => {
      const ids = rows.map(({ id }) => id)
      const cells = await groupCells(this.#db, ids, dataSource)
      const prompts = await groupPrompts(this.#db, ids)
      const promptOf = new Map(
        prompts.batch_id.map((batch, at) => [
          `${batch}/${prompts.group_no[at]}`,
          { key: prompts.prompt_key[at] as string, uid: prompts.uid[at] as string },
        ]),
      )
      const units = new Map<string, number>()
      return cells.batch_id.map((batch, at) => {
        const group = `${batch}/${cells.group_no[at]}`
        const unit = units.get(group) ?? units.size
        units.set(group, unit)
        return {
          ...{ unit, batch, n: cells.n[at] as number, sum: cells.sum[at] as number },
          ...{ dataSource: cells.data_source[at] as string, verdict: cells.verdict[at] as string },
          prompt: promptOf.get(group) ?? null,
        }
      })
    }
    const [before, after] = await ofBoth(sides, read)
    return { before, after }
  }

  /** Reads the samples of both ranges from roll-ups. A step is the unit of resampling. */
  async #samplesByStep(sides: Sides<ChangeStepRow[]>): Promise<Read> {
    const read = async (rows: readonly ChangeStepRow[]): Promise<ReadCell[]> => {
      const unitOf = new Map(rows.map(({ id }, unit) => [id, unit]))
      const cells: ReadCell[] = []
      const byBatch = Map.groupBy(
        await rollUpCells(
          this.#db,
          rows.map(({ id }) => id),
        ),
        ({ batch_id }) => batch_id,
      )
      for (const [batch, rollUps] of byBatch) {
        const unit = unitOf.get(batch) as number
        const add = (dataSource: string, verdict: string | null, n: number, sum: number) => {
          if (n > 0) cells.push({ unit, batch, n, sum, dataSource, verdict, prompt: null })
        }
        let [leftN, leftSum] = [0, 0]
        for (const { data_source, n, mean, verdicts } of rollUps) {
          const sign = data_source === '' ? 1 : -1
          leftN += sign * n
          leftSum += sign * n * mean
          if (data_source === '') continue
          const counted = (verdicts ?? []).filter((one) => one.mean !== null)
          if (counted.length === 0) add(data_source, null, n, n * mean)
          for (const one of counted)
            add(data_source, one.verdict, one.n, one.n * (one.mean as number))
        }
        // Only the 64 largest data sources of a batch have their own roll-ups.
        if (leftN > 0) add(OTHERS, null, leftN, leftSum)
      }
      return cells
    }
    const [before, after] = await ofBoth(sides, read)
    return { before, after }
  }

  async #side(
    rows: readonly ChangeStepRow[],
    cells: readonly ReadCell[],
    dataSource: string | null,
    byGroup: boolean,
  ): Promise<ChangeRangeDto> {
    const ids = rows.map(({ id }) => id)
    const lengths = byGroup
      ? await lengthFigures(this.#db, ids, dataSource)
      : { mean: null, correlation: null }
    const n = sum(cells, (cell) => cell.n)
    return {
      from: rows[0]?.step ?? 0,
      to: rows.at(-1)?.step ?? 0,
      steps: rows.length,
      batchIds: ids.map((id) => `b${id}`),
      groups: byGroup
        ? new Set(cells.map(({ unit }) => unit)).size
        : sum(rows, ({ groups }) => groups),
      samples: n,
      mean: n === 0 ? null : sum(cells, (cell) => cell.sum) / n,
      meanLength: lengths.mean,
      lengthCorrelation: lengths.correlation,
    }
  }

  async #excluded(
    { before, after }: Sides<ChangeStepRow[]>,
    dataSource: string | null,
    byGroup: boolean,
  ): Promise<ChangesDto['excluded']> {
    if (!byGroup) return []
    const counts = new Map<string, { before: number; after: number }>()
    for (const [side, rows] of Object.entries({ before, after })) {
      const found = await excludedSamples(
        this.#db,
        rows.map(({ id }) => id),
        dataSource,
      )
      for (const { reason, n } of found) {
        const count = counts.get(reason) ?? { before: 0, after: 0 }
        count[side as 'before' | 'after'] = n
        counts.set(reason, count)
      }
    }
    return [...counts]
      .map(([reason, count]) => ({ reason, ...count }))
      .sort((a, b) => b.before + b.after - a.before - a.after)
  }

  /**
   * Splits the change by component, using each component's weight × mean. The remainder (penalties, post-processing)
   * is a separate part.
   */
  async #components(
    { before, after }: Sides<ChangeStepRow[]>,
    dataSource: string | null,
  ): Promise<BreakdownDto> {
    const rows = [...before, ...after]
    const names = [...new Set(rows.flatMap(({ weights }) => Object.keys(weights ?? {})))]
    if (names.length === 0) return missing('component', 'The reward has no components.')
    const total = sum(rows, ({ samples }) => samples)
    const bySample = total <= MAX_COMPONENT_SAMPLES
    if (!bySample && dataSource !== null)
      return missing('component', 'Too many samples for components by data source.')
    const side = async (of: readonly ChangeStepRow[]): Promise<ComponentSide> => {
      const weightsOf = new Map(of.map(({ id, weights }) => [id, weights ?? {}]))
      if (bySample) {
        const ids = of.map(({ id }) => id)
        const cells = await componentCells(this.#db, ids, names, dataSource)
        return componentSide(
          cells.map(({ batch_id, n, sum, sums }) => ({
            ...{ n, sum, weights: weightsOf.get(batch_id) ?? {} },
            sums: sums.map((value) => value ?? 0),
          })),
          names,
        )
      }
      return componentSide(
        of.map(({ n, mean, weights, components }) => ({
          ...{ n, sum: n * mean, weights: weights ?? {} },
          sums: names.map((name) => {
            const found = components?.find((one) => one.name === name)
            return found?.mean == null ? 0 : found.n * found.mean
          }),
        })),
        names,
      )
    }
    const [first, last] = await ofBoth({ before, after }, side)
    return componentBreakdown(first, last, names)
  }
}

/** Runs a function on both sides concurrently, so that a database with two cores uses both. */
function ofBoth<T, U>({ before, after }: Sides<T>, of: (side: T) => Promise<U>): Promise<[U, U]> {
  return Promise.all([of(before), of(after)])
}

/** The counted samples of one unit of resampling (a group or a step), data source and verdict. */
interface ReadCell {
  unit: number
  batch: number
  n: number
  sum: number
  dataSource: string
  verdict: string | null
  prompt: { key: string; uid: string } | null
}

type Read = Sides<ReadCell[]>

function missing(dimension: BreakdownDto['dimension'], why: string): BreakdownDto {
  return { dimension, parts: [], mix: NOTHING, missing: why }
}

function cellsOf(cells: readonly ReadCell[], keyOf: (cell: ReadCell) => string): Cell[] {
  return cells.map((cell) => ({ unit: cell.unit, key: keyOf(cell), n: cell.n, sum: cell.sum }))
}

/**
 * Splits the change by class. The classes with the fewest samples are merged into one. The computation yields to the
 * event loop, because the bootstrap of 32,000 groups takes 0.1 s.
 */
function splitBy(
  { before, after }: Read,
  keyOf: (cell: ReadCell) => string,
): Promise<Decomposition> {
  const counts = new Map<string, number>()
  for (const cell of [...before, ...after])
    counts.set(keyOf(cell), (counts.get(keyOf(cell)) ?? 0) + cell.n)
  const listed = new Set(
    [...counts]
      .sort((a, b) => b[1] - a[1])
      .slice(0, MAX_LISTED_PARTS)
      .map(([key]) => key),
  )
  const keyed = (cell: ReadCell) => (listed.has(keyOf(cell)) ? keyOf(cell) : OTHERS)
  return inPortions(decompose(cellsOf(before, keyed), cellsOf(after, keyed)))
}

function toBreakdown(
  dimension: BreakdownDto['dimension'],
  decomposition: Decomposition,
): BreakdownDto {
  const { mix } = decomposition
  return { dimension, parts: partsOf(decomposition), mix: toDto(mix), missing: null }
}

async function splitsOf(read: Read, byGroup: boolean) {
  return {
    byOutcome: await splitBy(read, ({ verdict }) => verdict ?? ''),
    byDataSource: await splitBy(read, (cell) => cell.dataSource),
    byPrompt: await promptBreakdown(read, byGroup),
  }
}

async function promptBreakdown(read: Read, byGroup: boolean): Promise<BreakdownDto> {
  if (!byGroup) return missing('prompt', 'Too many samples. Choose fewer steps.')
  const known = (cells: readonly ReadCell[]) =>
    new Set(cells.flatMap(({ prompt }) => prompt?.key ?? []))
  const [first, last] = [known(read.before), known(read.after)]
  if (first.size === 0 && last.size === 0)
    return missing('prompt', 'The samples were stored without prompt keys.')
  const split = splitBy(read, ({ prompt }) => {
    if (prompt === null) return 'none'
    if (!last.has(prompt.key)) return 'before'
    return first.has(prompt.key) ? 'both' : 'after'
  })
  return toBreakdown('prompt', await split)
}

function partsOf({ parts }: Decomposition): ChangePartDto[] {
  return parts
    .map((part) => ({
      ...{ key: part.key, before: part.before, after: part.after },
      ...{ mix: toDto(part.mix), within: toDto(part.within), total: toDto(part.total) },
    }))
    .sort((a, b) => Math.abs(b.total.value) - Math.abs(a.total.value))
}

function toDto({ value, standardError }: Contribution): ContributionDto {
  if (standardError === null) return { value, low: null, high: null }
  return { value, low: value - Z_95 * standardError, high: value + Z_95 * standardError }
}

interface ComponentSide {
  units: { n: number; sum: number; weights: Record<string, number>; sums: number[] }[]
  n: number
  /** Mean of weight × value over all counted samples, by component. */
  means: number[]
  /** The mean weight over all counted samples, by component. */
  weights: number[]
}

function componentSide(units: ComponentSide['units'], names: readonly string[]): ComponentSide {
  const n = sum(units, (unit) => unit.n)
  const weight = (unit: ComponentSide['units'][number], at: number) =>
    unit.weights[names[at] as string] ?? 0
  return {
    units,
    n,
    means: names.map((_, at) => sum(units, (u) => weight(u, at) * (u.sums[at] as number)) / n),
    weights: names.map((_, at) => sum(units, (u) => weight(u, at) * u.n) / n),
  }
}

const REST = '(penalty, post-processing)'

function componentBreakdown(
  before: ComponentSide,
  after: ComponentSide,
  names: readonly string[],
): BreakdownDto {
  if (before.n === 0 || after.n === 0)
    return missing('component', 'One of the ranges has no scored samples.')
  const meanOf = (side: ComponentSide) => sum(side.units, (unit) => unit.sum) / side.n
  const scale = Math.max(Math.abs(meanOf(before)), Math.abs(meanOf(after)), 1e-9)
  const side = (of: ComponentSide, at: number) => ({
    n: of.n,
    share: of.weights[at] as number,
    mean: of.weights[at] === 0 ? null : (of.means[at] as number) / (of.weights[at] as number),
  })
  const parts = names.map((key, at): ChangePartDto => {
    const [w0, w1] = [before.weights[at] as number, after.weights[at] as number]
    const total = (after.means[at] as number) - (before.means[at] as number)
    const [m0, m1] = [side(before, at).mean, side(after, at).mean]
    const mix = (w1 - w0) * (((m0 ?? m1 ?? 0) + (m1 ?? m0 ?? 0)) / 2)
    const [e0, e1] = [meanError(before, names, at), meanError(after, names, at)]
    const standardError = e0 === null || e1 === null ? null : Math.hypot(e0, e1)
    const interval = (value: number) => toDto({ value, standardError })
    return {
      ...{ key, before: side(before, at), after: side(after, at) },
      ...{ mix: toDto({ value: mix, standardError: null }), within: interval(total - mix) },
      total: interval(total),
    }
  })
  const change = meanOf(after) - meanOf(before)
  const rest = change - sum(parts, ({ total }) => total.value)
  if (Math.abs(rest) > 1e-9 * scale) {
    const of = (one: ComponentSide) => ({
      n: one.n,
      share: 1,
      mean: meanOf(one) - sum(one.means, (mean) => mean),
    })
    parts.push({
      ...{ key: REST, before: of(before), after: of(after), mix: NOTHING },
      ...{ within: { ...NOTHING, value: rest }, total: { ...NOTHING, value: rest } },
    })
  }
  const mix = { ...NOTHING, value: sum(parts, (part) => part.mix.value) }
  parts.sort((a, b) => Math.abs(b.total.value) - Math.abs(a.total.value))
  return { dimension: 'component', parts, mix, missing: null }
}

/** The standard error of a weighted mean over units of different sizes (a ratio estimator). */
function meanError(side: ComponentSide, names: readonly string[], at: number): number | null {
  const { units, n } = side
  if (units.length < 2) return null
  const name = names[at] as string
  const mean = side.means[at] as number
  const squares = sum(
    units,
    (u) => ((u.weights[name] ?? 0) * (u.sums[at] as number) - mean * u.n) ** 2,
  )
  return Math.sqrt((squares * units.length) / (units.length - 1)) / n
}

/**
 * Returns the part that explains most of the change, or null if no part stands out. Verdicts that only repeat the
 * score, prompts that occur in both ranges, and dimensions with a single data source or class of prompts are ignored.
 */
function standsOut(breakdowns: readonly BreakdownDto[], change: number): ChangesDto['standsOut'] {
  type Candidate = { found: NonNullable<ChangesDto['standsOut']>; size: number }
  const candidates: Candidate[] = []
  const consider = (found: Candidate['found'], { value, low }: ContributionDto) => {
    const error = low === null ? null : (value - low) / Z_95
    const size = Math.abs(value)
    if (size < STANDS_OUT_SHARE * Math.abs(change) || size < 1e-9) return
    if (error !== null && size > MIN_STANDS_OUT_Z * error) candidates.push({ found, size })
  }
  for (const { dimension, parts, mix } of breakdowns) {
    if (dimension === 'outcome') {
      for (const { key, total } of parts)
        if (!restatesScore(key)) consider({ dimension, key, by: 'total' }, total)
    }
    if (dimension === 'component') {
      for (const { key, total } of parts) consider({ dimension, key, by: 'total' }, total)
    }
    if (dimension === 'dataSource' && parts.length > 1) {
      consider({ dimension, key: parts[0]?.key ?? '', by: 'mix' }, mix)
      for (const { key, within, before, after } of parts) {
        // A source that changes like the whole run explains as much of the change as its share of the samples.
        const share = (before.share + after.share) / 2
        if (within.value / change > Math.min(MAX_OWN_SHARE, share + MIN_EXCESS_SHARE))
          consider({ dimension, key, by: 'within' }, within)
      }
    }
    if (dimension === 'prompt' && parts.length > 1) {
      const both = parts.find(({ key }) => key === 'both')
      const shared = Math.min(both?.before.share ?? 0, both?.after.share ?? 0)
      if (shared < MIN_SHARED_PROMPTS) continue
      for (const { key, total } of parts)
        if (key !== 'both') consider({ dimension, key, by: 'total' }, total)
    }
  }
  return candidates.sort((a, b) => b.size - a.size)[0]?.found ?? null
}

function promptsOf({ before, after }: Read): ChangesDto['prompts'] {
  const sums = (cells: readonly ReadCell[]) => {
    const byPrompt = new Map<string, { n: number; sum: number; batch: number; uid: string }>()
    for (const { prompt, n, sum, batch } of cells) {
      if (prompt === null) continue
      const known = byPrompt.get(prompt.key) ?? { n: 0, sum: 0, batch, uid: prompt.uid }
      byPrompt.set(prompt.key, { ...known, n: known.n + n, sum: known.sum + sum })
    }
    return byPrompt
  }
  const [first, last] = [sums(before), sums(after)]
  const [nA, nB] = [sum(before, ({ n }) => n), sum(after, ({ n }) => n)]
  return [...last]
    .flatMap(([key, b]) => {
      const a = first.get(key)
      if (a === undefined) return []
      const [meanA, meanB] = [a.sum / a.n, b.sum / b.n]
      return [
        {
          ...{ key, batchId: `b${b.batch}`, uid: b.uid, before: meanA, after: meanB },
          contribution: ((a.n / nA + b.n / nB) / 2) * (meanB - meanA),
        },
      ]
    })
    .sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution))
    .slice(0, LISTED_PROMPTS)
}

/** Returns the steps before and after a change. `at` is the index of the first step after it. */
function around(steps: readonly ScoredStepRow[], at: number): Sides<ScoredStepRow[]> {
  return {
    before: steps.slice(Math.max(0, at - FOUND_STEPS), at),
    after: steps.slice(at, at + FOUND_STEPS),
  }
}

/** Returns the sudden changes, ordered by step. `shifts` has the index of the first step after each change. */
function suddenChanges(
  steps: readonly ScoredStepRow[],
  shifts: readonly number[],
): SuddenChangeDto[] {
  const rangeOf = (side: readonly ScoredStepRow[]) => ({
    from: side[0]!.step,
    to: side.at(-1)!.step,
  })
  const meanOf = (side: readonly ScoredStepRow[]) => sum(side, ({ mean }) => mean) / side.length
  return shifts
    .toSorted((a, b) => a - b)
    .map((at) => {
      const { before, after } = around(steps, at)
      return {
        before: rangeOf(before),
        after: rangeOf(after),
        change: meanOf(after) - meanOf(before),
      }
    })
}

function sidesOf(
  steps: readonly ScoredStepRow[],
  { before, after }: ChangesInput,
): Pick<ChangesDto, 'chosen' | 'suddenChanges'> & Sides<ScoredStepRow[]> {
  const shifts = findShifts(steps)
  const found = suddenChanges(steps, shifts)
  if (before !== undefined && after !== undefined) {
    const within = ({ from, to }: { from: number; to: number }) =>
      steps.filter(({ step }) => step >= from && step <= to)
    const sides = { before: within(before), after: within(after) }
    for (const [name, range] of Object.entries({ before, after })) {
      if (sides[name as 'before' | 'after'].length > 0) continue
      throw new RewardOpsError(
        'no_such_step',
        `The run has no scored step from ${range.from} to ${range.to}.`,
        { hint: 'Choose steps of ended batches whose samples retention has kept.' },
      )
    }
    return { chosen: 'given', suddenChanges: found, ...sides }
  }
  if (steps.length < 2) {
    throw new RewardOpsError('no_such_step', 'The run has fewer than two scored steps.', {
      hint: 'Wait for the second step.',
    })
  }
  const latest = steps.length < MIN_SHIFT_STEPS ? 'unsearched' : 'latest'
  return {
    chosen: shifts.length === 0 ? latest : 'largest',
    suddenChanges: found,
    ...around(steps, shifts[0] ?? Math.max(1, steps.length - FOUND_STEPS)),
  }
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0)
}
