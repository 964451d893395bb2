/**
 * Groups per page. Completion numbers have no gaps, so a group's number determines its page, and a full page never
 * changes.
 */
export const GROUP_PAGE = 100

/** The completion number, from 1, of the row with index `row`. */
export function seqOfRow(row: number, total: number, order: 'completion' | 'latest'): number {
  return order === 'completion' ? row + 1 : total - row
}

function pageOfSeq(seq: number): number {
  return Math.floor((seq - 1) / GROUP_PAGE)
}

/** The pages needed to draw rows `from` to `to`, both included. */
export function pagesOfRows(
  from: number,
  to: number,
  total: number,
  order: 'completion' | 'latest',
): number[] {
  if (total === 0 || to < from) return []
  const first = pageOfSeq(seqOfRow(Math.max(0, from), total, order))
  const last = pageOfSeq(seqOfRow(Math.min(total - 1, to), total, order))
  const [low, high] = first <= last ? [first, last] : [last, first]
  return Array.from({ length: high - low + 1 }, (_, i) => low + i)
}
