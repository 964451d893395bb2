import { batchNumber } from '../batches/batch-reader.ts'
import {
  type CompareCandidatesDto,
  type CompareCandidatesInput,
  type ComparedBatchDto,
  type ComparedGroupDto,
  type ComparedPage,
  type ComparedSampleDto,
  type CompareGroupsInput,
  type ComparePairDto,
  type ComparePairInput,
  type CompareSamplesInput,
  type DisagreementMeasure,
  type JointCellIndex,
  MAX_COMPARED_SAMPLES,
  MAX_SUGGESTED,
} from '../contract/compare.ts'
import { rewardVersionOf } from '../contract/resolved-reward.ts'
import { RewardOpsError } from '../errors.ts'
import { type Comparison, compareScores } from '../rewards/comparison/compare-scores.ts'
import type { SampleColumns } from '../rewards/comparison/match-samples.ts'
import { descendingOrder } from '../rewards/comparison/ranks.ts'
import { placeIn } from '../rewards/comparison/score-shapes.ts'
import type { Database } from '../store/database.ts'
import { type BatchRow, batchById, hasEnded } from '../store/sql/batches.ts'
import {
  batchesOfSameRollouts,
  batchesOfSameStep,
  newestRescores,
  rescoreChain,
} from '../store/sql/compare.ts'
import { readColumns } from './compared-columns.ts'
import { inPortions } from './in-portions.ts'

/** Maximum number of cached comparisons of ended batches, up to 20 MB each at 131,072 samples. */
const MAX_REMEMBERED = 6
const LIVE_TTL_MS = 2_000
/** Maximum share of time spent on comparing one pair while a batch is scored. */
const MAX_LIVE_SHARE = 0.1
const MAX_LIVE = 4
/** Maximum number of queued comparisons; each takes up to 3 s. */
const MAX_WAITING = 8
const MAX_RELATIVES = 50

interface Made extends Comparison {
  first: SampleColumns
  joinedBy: 'index' | 'response'
  /** Positions of the samples in the order of each measure, largest first; computed at first use. */
  orders: Map<DisagreementMeasure, Promise<Ordered>>
  groupOrder: Promise<Ordered> | null
}

/** Positions in descending order of their keys, without those whose key is NaN. */
interface Ordered {
  keys: Float64Array
  order: Int32Array
}

/**
 * Compares two batches sample by sample. Comparisons of ended batches are cached. A comparison with a running batch is
 * recomputed after 2 s or ten times the duration of the last computation, whichever is longer. Comparisons run one at a
 * time in short slices, so that the process keeps serving.
 */
export class CompareView {
  readonly #db: Database
  readonly #ended = new Map<string, Promise<Made>>()
  readonly #live = new Map<string, { until: number; made: Promise<Made> }>()
  #waiting = 0
  #line: Promise<unknown> = Promise.resolve()

  constructor(db: Database) {
    this.#db = db
  }

  /** Summarizes a pair. @throws RewardOpsError `batch_not_found`, `comparison_too_large`, `busy` if eight are queued */
  async pair(input: ComparePairInput): Promise<ComparePairDto> {
    const { first, second, isLive, made } = await this.#made(input)
    return {
      first: toCompared(first),
      second: toCompared(second),
      joinedBy: made.joinedBy,
      isLive,
      ...made.summary,
    }
  }

  /** Returns the samples that both batches scored, largest disagreement first. @throws the errors of {@link pair} */
  async samples(input: CompareSamplesInput): Promise<ComparedPage<ComparedSampleDto>> {
    const { first, second, made } = await this.#made(input)
    const { matched, groups } = made
    const { by, signFlipped, uid, cell } = input
    let ordered = made.orders.get(by)
    if (ordered === undefined) {
      ordered = inPortions(orderOf(disagreements(made, by)))
      made.orders.set(by, ordered)
    }
    const { keys, order } = await ordered
    const of = uid === undefined ? null : rangeOfGroup(made, uid)
    const isInCell = cell === undefined ? null : ofCell(made, cell)
    const fits = (at: number) =>
      (!signFlipped || groups.sampleSignFlipped[at] === 1) &&
      (of === null || (at >= of.from && at < of.to)) &&
      (isInCell === null || isInCell(at))
    const isNarrowed = signFlipped || of !== null || isInCell !== null
    const page = pageOf(keys, order, fits, input, isNarrowed)
    const share = (rank: number) =>
      matched.first.length < 2 ? 0.5 : (rank - 1) / (matched.first.length - 1)
    return {
      ...page,
      items: page.items.map((at): ComparedSampleDto => {
        const firstIndex = matched.firstIndex[at] as number
        return {
          firstId: `b${first.id}-${firstIndex}`,
          secondId: `b${second.id}-${matched.secondIndex[at]}`,
          uid: made.first.uids[made.first.group[firstIndex] as number] as string,
          dataSource: made.first.sources[made.first.source[firstIndex] as number] as string,
          first: matched.first[at] as number,
          second: matched.second[at] as number,
          firstAdvantage: numberOf(groups.firstAdvantage[at]),
          secondAdvantage: numberOf(groups.secondAdvantage[at]),
          firstRank: share(made.firstRank[at] as number),
          secondRank: share(made.secondRank[at] as number),
          signFlipped: groups.sampleSignFlipped[at] === 1,
        }
      }),
    }
  }

  /**
   * Returns the groups with at least two compared members, lowest Kendall's τ first.
   * @throws the errors of {@link pair}
   */
  async groups(input: CompareGroupsInput): Promise<ComparedPage<ComparedGroupDto>> {
    const { made } = await this.#made(input)
    const { matched, groups } = made
    made.groupOrder ??= inPortions(orderOf(groupKeys(made)))
    const { keys, order } = await made.groupOrder
    const page = pageOf(keys, order, () => true, input, false)
    return {
      ...page,
      items: page.items.map(
        (at): ComparedGroupDto => ({
          uid: made.first.uids[matched.groups[at] as number] as string,
          n: (matched.starts[at + 1] as number) - (matched.starts[at] as number),
          tau: numberOf(groups.tau[at]),
          comparable: groups.comparable[at] as number,
          reversed: groups.reversed[at] as number,
          bestChanged: groups.bestChanged[at] === 1,
          noSignalFirst: groups.noSignalFirst[at] === 1,
          noSignalSecond: groups.noSignalSecond[at] === 1,
          firstMean: groups.firstMean[at] as number,
          secondMean: groups.secondMean[at] as number,
          signFlipped: groups.signFlipped[at] as number,
        }),
      ),
    }
  }

  /**
   * Returns the batches that a batch can be compared with, or suggested pairs if no batch is given.
   * @throws RewardOpsError `batch_not_found`
   */
  async candidates({ batchId, run }: CompareCandidatesInput): Promise<CompareCandidatesDto> {
    const none = { batch: null, sameRollouts: [], sameStep: [], recent: [] }
    if (batchId === undefined) {
      const rescores = await newestRescores(this.#db, run ?? null, MAX_SUGGESTED)
      const rows = await this.#batches(rescores.flatMap(({ id, origin }) => [id, origin]))
      const recent = rescores.flatMap(({ id, origin }) => {
        const first = rows.get(origin)
        const second = rows.get(id)
        return first === undefined || second === undefined ? [] : [{ first, second }]
      })
      return { ...none, recent }
    }
    const row = await this.#row(batchId)
    const [same, step] = await Promise.all([
      batchesOfSameRollouts(this.#db, row.id, MAX_RELATIVES),
      batchesOfSameStep(this.#db, row.id, MAX_SUGGESTED),
    ])
    const others = step.filter((id) => !same.includes(id))
    const rows = await this.#batches([...same, ...others])
    const those = (ids: number[]) => ids.flatMap((id) => rows.get(id) ?? [])
    return { ...none, batch: toCompared(row), sameRollouts: those(same), sameStep: those(others) }
  }

  async #batches(ids: readonly number[]): Promise<Map<number, ComparedBatchDto>> {
    const rows = await Promise.all([...new Set(ids)].map((id) => batchById(this.#db, id)))
    return new Map(rows.flatMap((row) => (row === undefined ? [] : [[row.id, toCompared(row)]])))
  }

  async #row(batchId: string): Promise<BatchRow> {
    const row = await batchById(this.#db, batchNumber(batchId))
    if (row === undefined) {
      throw new RewardOpsError('batch_not_found', `There is no batch ${batchId}.`)
    }
    if (row.samples > MAX_COMPARED_SAMPLES) {
      throw new RewardOpsError(
        'comparison_too_large',
        `${batchId} has ${row.samples} samples, more than ${MAX_COMPARED_SAMPLES}.`,
      )
    }
    return row
  }

  async #made(
    input: ComparePairInput,
  ): Promise<{ first: BatchRow; second: BatchRow; isLive: boolean; made: Made }> {
    const [first, second] = await Promise.all([this.#row(input.first), this.#row(input.second)])
    const isLive = first.completed_at === null || second.completed_at === null
    const key = `${first.id} ${second.id}`
    if (isLive) {
      return { first, second, isLive, made: await this.#madeLive(key, first, second) }
    }
    this.#live.delete(key)
    let made = this.#ended.get(key)
    // A used comparison moves to the end of the map. When the map is full, the first entry is evicted.
    this.#ended.delete(key)
    made ??= this.#inLine(first, second)
    this.#ended.set(key, made)
    const pending = made
    pending.catch(() => {
      if (this.#ended.get(key) === pending) this.#ended.delete(key)
    })
    for (const oldest of this.#ended.keys()) {
      if (this.#ended.size <= MAX_REMEMBERED) break
      this.#ended.delete(oldest)
    }
    return { first, second, isLive, made: await made }
  }

  #madeLive(key: string, first: BatchRow, second: BatchRow): Promise<Made> {
    const kept = this.#live.get(key)
    if (kept !== undefined && kept.until > performance.now()) return kept.made
    const startedMs = performance.now()
    const entry = {
      until: Number.POSITIVE_INFINITY,
      made: this.#inLine(first, second),
    }
    this.#live.delete(key)
    this.#live.set(key, entry)
    for (const oldest of this.#live.keys()) {
      if (this.#live.size <= MAX_LIVE) break
      this.#live.delete(oldest)
    }
    entry.made.then(
      () => {
        const now = performance.now()
        entry.until = now + Math.max(LIVE_TTL_MS, (now - startedMs) / MAX_LIVE_SHARE)
      },
      () => {
        if (this.#live.get(key) === entry) this.#live.delete(key)
      },
    )
    return entry.made
  }

  #inLine(first: BatchRow, second: BatchRow): Promise<Made> {
    if (this.#waiting >= MAX_WAITING) {
      throw new RewardOpsError('busy', `${MAX_WAITING} comparisons are already queued.`, {
        retryAfterMs: 1_000,
      })
    }
    this.#waiting++
    const made = this.#line.then(() => {
      this.#waiting--
      return this.#make(first, second)
    })
    this.#line = made.catch(() => {})
    return made
  }

  async #make(first: BatchRow, second: BatchRow): Promise<Made> {
    const mayBeSame = areWhole(
      await rescoreChain(this.#db, first.id),
      await rescoreChain(this.#db, second.id),
    )
    let one = await readColumns(this.#db, first, !mayBeSame)
    let other = await readColumns(this.#db, second, !mayBeSame)
    const sameIndex = mayBeSame && haveSamePlaces(one, other)
    if (mayBeSame && !sameIndex) {
      one = await readColumns(this.#db, first, true)
      other = await readColumns(this.#db, second, true)
    }
    const comparison = await inPortions(compareScores(one, other, sameIndex))
    return {
      ...comparison,
      first: one,
      joinedBy: sameIndex ? 'index' : 'response',
      orders: new Map(),
      groupOrder: null,
    }
  }
}

/**
 * True if both batches come from one batch without a partial rescore in between. A partial rescore renumbers its
 * samples; otherwise, equal indexes mean equal responses.
 */
function areWhole(
  first: readonly { id: number; samples: number }[],
  second: readonly { id: number; samples: number }[],
): boolean {
  const shared = second.findIndex(({ id }) => first.some((one) => one.id === id))
  if (shared < 0) return false
  const origin = second[shared] as { id: number; samples: number }
  const between = [
    ...first.slice(
      0,
      first.findIndex(({ id }) => id === origin.id),
    ),
    ...second.slice(0, shared),
  ]
  return between.every(({ samples }) => samples === origin.samples)
}

/** True when every sample has the same group uid in both batches, as after a rescore of a whole batch. */
function haveSamePlaces(one: SampleColumns, other: SampleColumns): boolean {
  return (
    one.uids.length === other.uids.length &&
    one.uids.every((uid, no) => uid === other.uids[no]) &&
    one.group.every((no, at) => no === other.group[at])
  )
}

/** Returns the disagreement of the batches on each sample, or NaN if the measure has no value. */
function disagreements(made: Made, by: DisagreementMeasure): Float64Array {
  const { matched, groups } = made
  const [a, b] =
    by === 'advantage'
      ? [groups.firstAdvantage, groups.secondAdvantage]
      : by === 'rank'
        ? [made.firstRank, made.secondRank]
        : [matched.first, matched.second]
  return a.map((value, at) => Math.abs((b[at] as number) - value))
}

/**
 * Sort keys of groups: lowest τ first, then no-signal groups of only one batch, then no-signal groups of both batches.
 */
function groupKeys({ matched, groups }: Made): Float64Array {
  return groups.tau.map((tau, at) => {
    if ((matched.starts[at + 1] as number) - (matched.starts[at] as number) < 2) return Number.NaN
    if (!Number.isNaN(tau)) return -tau
    return groups.noSignalFirst[at] === 1 && groups.noSignalSecond[at] === 1 ? -3 : -2
  })
}

function* orderOf(keys: Float64Array): Generator<void, Ordered> {
  const places: number[] = []
  for (let at = 0; at < keys.length; at++) {
    if (at % 16_384 === 0) yield
    if (!Number.isNaN(keys[at])) places.push(at)
  }
  const known = Float64Array.from(places, (at) => keys[at] as number)
  yield
  const order = yield* descendingOrder(known)
  return { keys, order: order.map((k) => places[k] as number) }
}

/** Returns the range of a group's samples. The range is empty if the comparison does not contain the group. */
function rangeOfGroup({ first, matched }: Made, uid: string): { from: number; to: number } {
  const no = first.uids.indexOf(uid)
  const at = matched.groups.indexOf(no)
  if (no < 0 || at < 0) return { from: 0, to: 0 }
  return { from: matched.starts[at] as number, to: matched.starts[at + 1] as number }
}

function ofCell(
  { matched, summary: { joint } }: Made,
  [x, y]: JointCellIndex,
): (at: number) => boolean {
  if (joint === null) return () => false
  const placeX = placeIn(joint.first)
  const placeY = placeIn(joint.second)
  return (at) =>
    placeX(matched.first[at] as number) === x && placeY(matched.second[at] as number) === y
}

/** The page after a cursor. The cursor has a key and a position, so it stays valid when the list grows. */
function pageOf(
  keys: Float64Array,
  order: Int32Array,
  fits: (at: number) => boolean,
  { cursor, limit }: { cursor?: string | null | undefined; limit: number },
  isNarrowed: boolean,
): { items: number[]; nextCursor: string | null; total: number } {
  let from = 0
  const match = /^(-?[\d.]+(?:e[+-]?\d+)?) (\d{1,9})$/.exec(cursor ?? '')
  if (cursor && match === null) {
    throw new RewardOpsError('invalid_input', 'cursor: not a cursor of this list.')
  }
  if (match !== null) from = placeAfter(keys, order, Number(match[1]), Number(match[2]))
  const items: number[] = []
  let at = from
  for (; at < order.length && items.length < limit; at++) {
    if (fits(order[at] as number)) items.push(order[at] as number)
  }
  let more = false
  for (; at < order.length && !more; at++) more = fits(order[at] as number)
  const last = items.at(-1)
  return {
    items,
    nextCursor: more && last !== undefined ? `${keys[last]} ${last}` : null,
    total: isNarrowed ? order.reduce((n, one) => n + Number(fits(one)), 0) : order.length,
  }
}

function placeAfter(keys: Float64Array, order: Int32Array, key: number, place: number): number {
  let low = 0
  let high = order.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const at = order[middle] as number
    const value = keys[at] as number
    if (value > key || (value === key && at <= place)) low = middle + 1
    else high = middle
  }
  return low
}

function numberOf(value: number | undefined): number | null {
  return value === undefined || Number.isNaN(value) ? null : value
}

/** Returns a reward's options as text. Two batches scored by the same rule often differ only in their options. */
function optionsOf({ kwargs, function: own }: BatchRow['reward']): string {
  const all = { ...kwargs, ...own?.kwargs }
  const text = Object.keys(all).length === 0 ? '' : JSON.stringify(all)
  return text.length > 200 ? `${text.slice(0, 199)}…` : text
}

function toCompared(row: BatchRow): ComparedBatchDto {
  return {
    batchId: `b${row.id}`,
    run: row.run,
    step: row.step,
    split: row.split,
    status: hasEnded(row.status) && row.completed_at === null ? 'running' : row.status,
    rewardName: row.reward_name,
    rewardVersion: rewardVersionOf(row.reward),
    rewardOptions: optionsOf(row.reward),
    samples: row.samples,
    scored: row.scored,
    failed: row.failed,
    groups: row.groups,
    mean: row.mean,
    submittedAt: row.submitted_at.toISOString(),
    rescoredFrom: row.rescored_from === null ? null : `b${row.rescored_from}`,
  }
}
