import type { WorkerDto } from '../../server/contract/pages.ts'
import { linearTicks, type Tick } from './ticks.ts'

/** One second: its samples by worker ID; `at` is 0 for the newest second and negative before. */
interface ThroughputSecond {
  at: number
  [worker: string]: number
}

/** The samples per second of workers, prepared for drawing. */
interface ThroughputData {
  /** A minute, oldest first. */
  seconds: ThroughputSecond[]
  /** The IDs of the workers in stacking order. */
  workers: string[]
  /** The key of the sum of the workers beyond those; null where all are shown. */
  others: string | null
  /** Whether a sample was scored in that minute. */
  hasSamples: boolean
  timeTicks: Tick[]
  countTicks: Tick[]
}

const SECONDS = 60
const TICK_SECONDS = 15
/** One for each of the eight hues; more are summed. */
const MAX_WORKERS = 8

/** Prepares the last minute. A worker without a reading in a second adds nothing to it. */
export function prepareThroughput(
  given: readonly Pick<WorkerDto, 'id' | 'samplesPerSecondHistory'>[],
): ThroughputData {
  const all = given
    .map(({ id, samplesPerSecondHistory: history }) => ({
      id,
      history: history.slice(-SECONDS),
      samples: history.slice(-SECONDS).reduce<number>((sum, n) => sum + (n ?? 0), 0),
    }))
    .sort((a, b) => b.samples - a.samples || byName(a, b))
  const shown = all.slice(0, MAX_WORKERS).sort(byName)
  const rest = all.slice(MAX_WORKERS)
  const others = rest.length === 0 ? null : `${rest.length} more`
  const stack = others === null ? shown : [...shown, { id: others, history: summed(rest) }]
  const seconds = Array.from({ length: SECONDS }, (_, i): ThroughputSecond => {
    const at = i - SECONDS + 1
    return {
      ...Object.fromEntries(stack.map(({ id, history }) => [id, history.at(at - 1) ?? 0])),
      at,
    }
  })
  const total = ({ at, ...counts }: ThroughputSecond) =>
    Object.values(counts).reduce((sum, n) => sum + n, 0)
  return {
    seconds,
    workers: shown.map(({ id }) => id),
    others,
    hasSamples: all.some(({ samples }) => samples > 0),
    timeTicks: seconds
      .filter(({ at }) => at % TICK_SECONDS === 0)
      .map(({ at }) => ({ at, label: at === 0 ? 'now' : `${-at}\u00a0s ago` })),
    countTicks: linearTicks(Math.max(...seconds.map(total))),
  }
}

function byName(a: { id: string }, b: { id: string }): number {
  return a.id.localeCompare(b.id, 'en', { numeric: true })
}

function summed(some: readonly { history: (number | null)[] }[]): number[] {
  return Array.from({ length: SECONDS }, (_, i) =>
    some.reduce((sum, { history }) => sum + (history.at(i - SECONDS) ?? 0), 0),
  )
}
