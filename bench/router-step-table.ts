/** One dispatcher in one scenario. */
export interface Cell {
  scenario: string
  dispatcher: string
  /** The least time possible there: work over capacity, and the longest row. */
  boundMs: number
  /** Rows were left when the cap was reached. */
  capped: boolean
  /** Until the last row ended, or the cap. */
  makespanMs: number
  /** Until half the groups were scored whole; null: never. */
  halfGroupsMs: number | null
  /** Rows without a score, those left at the cap included. */
  failed: number
  /** Scores that are not the text's: none, ever. */
  wrong: number
  /** Requests that reached a server, less the rows. */
  extraRequests: number
}

/** Within this share two times are the same. */
const SAME = 0.02

/** The cells as a table for people: times as ratios to the bound and to our own healthy time, seconds beside. */
export function tableOf(cells: readonly Cell[]): string {
  const healthy = cells.find((cell) => cell.scenario === 'healthy' && cell.dispatcher === 'ours')
  const ratio = (ms: number, to: number | undefined) =>
    to === undefined ? '–' : (ms / to).toFixed(2)
  const header = [
    'scenario',
    'dispatcher',
    'makespan/bound',
    '/ours healthy',
    's',
    'half groups/bound',
    's',
    'failed',
    'extra',
  ]
  const lines = cells.map((cell) => [
    cell.scenario,
    cell.dispatcher,
    `${cell.capped ? '>' : ''}${ratio(cell.makespanMs, cell.boundMs)}`,
    `${cell.capped ? '>' : ''}${ratio(cell.makespanMs, healthy?.makespanMs)}`,
    `${cell.capped ? '>' : ''}${(cell.makespanMs / 1000).toFixed(1)}`,
    cell.halfGroupsMs === null ? 'never' : ratio(cell.halfGroupsMs, cell.boundMs),
    cell.halfGroupsMs === null ? '–' : (cell.halfGroupsMs / 1000).toFixed(1),
    `${cell.failed}${cell.wrong > 0 ? ` (${cell.wrong} wrong)` : ''}`,
    String(cell.extraRequests),
  ])
  const all = [header, ...lines]
  const widths = header.map((_, column) => Math.max(...all.map((line) => line[column]!.length)))
  return all
    .map((line) => line.map((text, column) => text.padEnd(widths[column]!)).join('  '))
    .join('\n')
}

/** Where our router does not do better than a baseline, in words. */
export function notBetter(cells: readonly Cell[]): string[] {
  const found: string[] = []
  for (const own of cells.filter((cell) => cell.dispatcher === 'ours')) {
    for (const other of cells) {
      if (other.scenario !== own.scenario || other === own) continue
      const where = `${own.scenario}, ${other.dispatcher}`
      const tell = (what: string, ours: number, theirs: number, unit: string) =>
        found.push(`${where}: ${what} ${ours}${unit}, theirs ${theirs}${unit}`)
      const seconds = (ms: number) => Math.round(ms / 10) / 100
      // A step that lost rows is not better for having ended soon.
      if (other.failed <= own.failed && own.makespanMs > other.makespanMs * (1 - SAME)) {
        tell('makespan', seconds(own.makespanMs), seconds(other.makespanMs), ' s')
      }
      const half = own.halfGroupsMs ?? Number.POSITIVE_INFINITY
      if (other.halfGroupsMs !== null && half > other.halfGroupsMs * (1 - SAME)) {
        tell('half the groups', seconds(half), seconds(other.halfGroupsMs), ' s')
      }
      if (own.failed > other.failed) tell('failed', own.failed, other.failed, '')
      if (other.failed <= own.failed && own.extraRequests > other.extraRequests) {
        tell('extra requests', own.extraRequests, other.extraRequests, '')
      }
    }
  }
  return found
}
