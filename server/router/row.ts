import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import type { AttemptRecord, RouterResult, ScoreRequest } from './router-types.ts'
import type { RowQueue } from './row-queue.ts'
import type { WheelEntry } from './timer-wheel.ts'
import type { HttpCall } from './transport.ts'

/** A month. */
const LONGEST_MS = 30 * 86_400_000

/**
 * One sample on its way. It is in exactly one place at a time: in a queue, in back-off, in flight, or done; in the
 * wheel until it is done.
 */
export class Row implements WheelEntry {
  readonly request: ScoreRequest
  readonly pool: ModelPool
  readonly resolve: (result: RouterResult) => void
  done = false

  dueAtMs: number
  /** When its batch's time is up, whatever it waits for. */
  readonly deadlineAtMs: number
  wheelNext: WheelEntry | null = null
  wheelPrev: WheelEntry | null = null
  wheelSlot = -1

  queue: RowQueue | null = null
  queueNext: Row | null = null
  queuePrev: Row | null = null
  /** When it began to wait for what comes next, on the clock of `performance.now()`. */
  waitingSinceMs: number
  /** Until when it waited on purpose; what it waits after that is for a slot. */
  backoffUntilMs: number
  /** Ends its back-off, or its patience for a server not tried yet. */
  timer: NodeJS.Timeout | null = null

  readonly attempts: AttemptRecord[] = []
  /** Calls that count against `maxAttempts`. */
  attemptsUsed = 0
  /** Servers called, in the order of the calls; null before the first, which most rows never leave behind. */
  tried: PoolServer[] | null = null
  /** The server that gave a corrupt answer, until another one says whose fault it was. */
  corrupt: { server: PoolServer; period: number } | null = null
  /** Its one free repeat after a connection race is used. */
  raced = false

  // The call in flight.
  call: HttpCall | null = null
  server: PoolServer | null = null
  startedAtMs = 0
  startedEpochMs = 0
  queueMs = 0
  backoffMs = 0
  /** Number from `ServerHealth.begin`. */
  period = 0

  constructor(
    request: ScoreRequest,
    pool: ModelPool,
    resolve: (result: RouterResult) => void,
    nowMs: number,
  ) {
    this.request = request
    this.pool = pool
    this.resolve = resolve
    // NaN counts as no time at all; what is longer than any run is as good as that long.
    const { deadlineMs } = request
    this.deadlineAtMs =
      deadlineMs === undefined ? Number.POSITIVE_INFINITY : nowMs + Math.max(0, deadlineMs)
    this.dueAtMs = this.dueFrom(nowMs)
    this.waitingSinceMs = nowMs
    this.backoffUntilMs = nowMs
  }

  /** When its time is up if the clock starts now. */
  dueFrom(nowMs: number): number {
    const { timeoutMs } = this.request
    return Math.min(
      nowMs + (timeoutMs > 0 ? Math.min(timeoutMs, LONGEST_MS) : 0),
      this.deadlineAtMs,
    )
  }

  /** Stops its timer, if one runs. */
  stopTimer(): void {
    if (this.timer === null) return
    clearTimeout(this.timer)
    this.timer = null
  }

  /** True when it was sent to that server before. */
  hasTried(server: PoolServer): boolean {
    return this.tried?.includes(server) === true
  }
}
