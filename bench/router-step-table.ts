export interface Cell {
  scenario: string
  dispatcher: string
  /** Least possible time: the work divided by the capacity, but at least the time of the longest sample. */
  boundMs: number
  /** Whether samples were unfinished at the time limit. */
  capped: boolean
  /** Time until the last sample was scored or failed, or the time limit. */
  makespanMs: number
  /** Time until half of the groups were completely scored, or null if they never were. */
  halfGroupsMs: number | null
  /** Samples without a score, including those unfinished at the time limit. */
  failed: number
  /** Scores that differ from the simulated server's score of the text; must be 0. */
  wrong: number
  /** Number of texts that reached a server, minus the number of samples. */
  extraRequests: number
}

/** Two times that differ by less than this fraction count as equal. */
const SAME = 0.02

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

export function notBetter(cells: readonly Cell[]): string[] {
  const found: string[] = []
  for (const own of cells.filter((cell) => cell.dispatcher === 'ours')) {
    for (const other of cells) {
      if (other.scenario !== own.scenario || other === own) continue
      const where = `${own.scenario}, ${other.dispatcher}`
      const tell = (what: string, ours: number, theirs: number, unit: string) =>
        found.push(`${where}: ${what} ${ours}${unit}, theirs ${theirs}${unit}`)
      const seconds = (ms: number) => Math.round(ms / 10) / 100
      // Ending earlier does not make a baseline better if it failed more samples.
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
