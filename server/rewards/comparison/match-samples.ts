import type { UnmatchedReason } from '../../contract/compare.ts'

const PORTION = 8_192

export const PENDING = 0
export const SCORED = 1
export const FAILED = 2
export const SUBSTITUTED = 3

/** A batch's samples as columns: entry i of an array belongs to the sample with index i. */
export interface SampleColumns {
  state: Uint8Array
  /** NaN if the sample has no score. */
  score: Float64Array
  group: Int32Array
  source: Int32Array
  sources: readonly string[]
  /** The uid of each group, by group number. */
  uids: readonly string[]
  /** 53 bits of each response's hash, or NaN if its text is not kept. The array is null if the hashes were not read. */
  response: Float64Array | null
}

export interface MatchedSamples {
  firstIndex: Int32Array
  secondIndex: Int32Array
  first: Float64Array
  second: Float64Array
  /**
   * Where each group starts, then the end of the last group. Group g has the entries from `starts[g]` up to
   * `starts[g + 1]`.
   */
  starts: Int32Array
  /** Each group's number in the first batch. */
  groups: Int32Array
  unmatched: Map<UnmatchedReason, number>
}

/**
 * Joins two batches. With `sameIndex`, samples with the same index match. Otherwise a sample matches the first
 * unmatched sample of the second batch that has the same uid and response.
 */
export function* matchSamples(
  first: SampleColumns,
  second: SampleColumns,
  sameIndex: boolean,
): Generator<void, MatchedSamples> {
  const unmatched = new Map<UnmatchedReason, number>()
  const miss = (reason: UnmatchedReason) => {
    unmatched.set(reason, (unmatched.get(reason) ?? 0) + 1)
  }
  const partner = sameIndex ? null : yield* partners(first, second, miss)
  const n = first.state.length
  const kept = new Int32Array(n)
  const groupSize = new Int32Array(first.uids.length + 1)
  let count = 0
  for (let at = 0; at < n; at++) {
    if (at % PORTION === PORTION - 1) yield
    const other = partner === null ? at : (partner[at] as number)
    if (other < 0) continue
    const reason = reasonOf(first.state[at] as number, second.state[other] as number)
    if (reason !== null) {
      miss(reason)
      continue
    }
    kept[count++] = at
    groupSize[first.group[at] as number]!++
  }
  // A counting sort by group keeps the samples of each group in the order of their index.
  const next = new Int32Array(first.uids.length + 1)
  const starts: number[] = []
  const groups: number[] = []
  let begin = 0
  for (let no = 0; no < first.uids.length; no++) {
    next[no] = begin
    const size = groupSize[no] as number
    if (size === 0) continue
    starts.push(begin)
    groups.push(no)
    begin += size
  }
  starts.push(begin)
  yield
  const matched: MatchedSamples = {
    firstIndex: new Int32Array(count),
    secondIndex: new Int32Array(count),
    first: new Float64Array(count),
    second: new Float64Array(count),
    starts: Int32Array.from(starts),
    groups: Int32Array.from(groups),
    unmatched,
  }
  for (let k = 0; k < count; k++) {
    if (k % PORTION === PORTION - 1) yield
    const at = kept[k] as number
    const to = next[first.group[at] as number]!++
    const other = partner === null ? at : (partner[at] as number)
    matched.firstIndex[to] = at
    matched.secondIndex[to] = other
    matched.first[to] = first.score[at] as number
    matched.second[to] = second.score[other] as number
  }
  return matched
}

function reasonOf(first: number, second: number): UnmatchedReason | null {
  if (first === PENDING || second === PENDING) return 'pending'
  if (first === FAILED) return second === FAILED ? 'failed_both' : 'failed_first'
  if (second === FAILED) return 'failed_second'
  return first === SUBSTITUTED || second === SUBSTITUTED ? 'substituted' : null
}

/** Maps each sample of the first batch to the index of its match in the second, or to −1 if it has none. */
function* partners(
  first: SampleColumns,
  second: SampleColumns,
  miss: (reason: UnmatchedReason) => void,
): Generator<void, Int32Array> {
  const secondNo = new Map(second.uids.map((uid, no) => [uid, no]))
  const firstUids = new Set(first.uids)
  yield
  // Unmatched samples of the second batch by group and response, in reverse order, so that `pop` returns the first.
  const free = new Map<string, number[]>()
  for (let at = second.state.length - 1; at >= 0; at--) {
    if (at % PORTION === 0) yield
    const hash = second.response?.[at] ?? Number.NaN
    if (Number.isNaN(hash)) continue
    const key = `${second.group[at]} ${hash}`
    const list = free.get(key)
    if (list === undefined) free.set(key, [at])
    else list.push(at)
  }
  const partner = new Int32Array(first.state.length).fill(-1)
  const taken = new Uint8Array(second.state.length)
  for (let at = 0; at < partner.length; at++) {
    if (at % PORTION === 0) yield
    const no = secondNo.get(first.uids[first.group[at] as number] as string)
    if (no === undefined) {
      miss('only_first')
      continue
    }
    const hash = first.response?.[at] ?? Number.NaN
    const other = Number.isNaN(hash) ? undefined : free.get(`${no} ${hash}`)?.pop()
    if (other === undefined) {
      miss('other_response')
      continue
    }
    partner[at] = other
    taken[other] = 1
  }
  for (let at = 0; at < taken.length; at++) {
    if (at % PORTION === 0) yield
    if (taken[at] === 1) continue
    const known = firstUids.has(second.uids[second.group[at] as number] as string)
    miss(known ? 'other_response' : 'only_second')
  }
  return partner
}
