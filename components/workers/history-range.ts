import { HISTORY_RANGES_S, MIN_HISTORY_S } from '../../server/contract/fleet-history.ts'

export interface HistoryRange {
  /** Seconds. */
  last: number
  /** The selected time range, in epoch seconds. Null selects the last `last` seconds. */
  part: { from: number; to: number } | null
}

const [SHORTEST_S] = HISTORY_RANGES_S
export const DEFAULT_RANGE: HistoryRange = { last: SHORTEST_S, part: null }

export function rangeOfUrl(params: URLSearchParams): HistoryRange {
  const last = HISTORY_RANGES_S.find((seconds) => String(seconds) === params.get('last'))
  const [from, to] = [Number(params.get('from')), Number(params.get('to'))]
  const isPart = Number.isInteger(from) && Number.isInteger(to) && from > 0
  return {
    last: last ?? SHORTEST_S,
    part: isPart && to - from >= MIN_HISTORY_S ? { from, to } : null,
  }
}

export function writeRange(params: URLSearchParams, { last, part }: HistoryRange): void {
  if (last !== SHORTEST_S) params.set('last', String(last))
  if (part === null) return
  params.set('from', String(part.from))
  params.set('to', String(part.to))
}

/**
 * Returns the time range of the selected intervals, at least a minute long. `fromMs` and `toMs` are the start times of
 * the first and last selected interval, epoch ms.
 */
export function partOf(
  fromMs: number,
  toMs: number,
  intervalSeconds: number,
): HistoryRange['part'] {
  const to = toMs / 1_000 + intervalSeconds
  return { from: Math.min(fromMs / 1_000, to - MIN_HISTORY_S), to }
}
