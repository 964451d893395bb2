import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { EngineFailure, EngineRequest, EngineScore, ScoreInput } from '../engines/engine.ts'
import type { FairItem, PriorityClass } from './fair-queue.ts'
import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PolicySample } from './policies/policy.ts'
import type { PoolServer } from './pool-server.ts'
import type { Refusal } from './refusals.ts'
import type { AttemptRecord, HedgeKind, RouteRequest } from './router-types.ts'
import type { SampleQueue } from './sample-queue.ts'
import type { ServerCanary } from './server-canary.ts'
import type { WheelEntry } from './timer-wheel.ts'
import type { HttpCall } from './transport.ts'

/** A month. */
const MAX_TIMER_MS = 30 * 86_400_000

/** A call's good end: what it gave, and the tokens the server counted. */
export interface SampleAnswer {
  ok: true
  tokens: number | null
}

/**
 * One request on its way: a sample, a judge's chat, or the wait for a slot. It is queued, in back-off, in flight (once, or
 * twice while a hedge is out), following an identical one, or done; in the wheel until it is done.
 */
export abstract class RoutedSample implements WheelEntry, FairItem, PolicySample {
  readonly request: RouteRequest
  readonly pool: ModelPool
  done = false

  dueAtMs: number
  /** When its batch's time is up, whatever it waits for. */
  readonly deadlineAtMs: number
  wheelNext: WheelEntry | null = null
  wheelPrev: WheelEntry | null = null
  wheelSlot = -1

  /** Estimated; its cost for queues, policies and expectations. */
  readonly tokens: number
  /** Of these, the prompt's. */
  readonly promptTokens: number
  /** Characters of its {@link input}. */
  chars = 0
  readonly run: string
  readonly group: string | undefined
  readonly order: number
  readonly priorityClass: PriorityClass

  /** The queue of retries or hedges it is in. */
  queue: SampleQueue | null = null
  queueNext: RoutedSample | null = null
  queuePrev: RoutedSample | null = null
  /** It is in the pool's fair queue. */
  queuedFresh = false
  /** The hedge it waits for, if it waits for one. */
  hedgeWanted: HedgeKind | null = null
  /** The server its policy bound it to, load or not (`deterministic`). */
  pinned: PoolServer | null = null
  /** When it began to wait for what comes next, on the clock of `performance.now()`. */
  waitingSinceMs: number
  /** Until when it waited on purpose; what it waits after that is for a slot. */
  backoffUntilMs: number
  /** Ends its back-off, or its patience for a server not tried yet. */
  timer: NodeJS.Timeout | null = null

  readonly attempts: AttemptRecord[] = []
  /** Calls begun one after the other; hedges do not count. */
  attemptsUsed = 0
  /** Of these, those that do not count against `maxAttempts`: refusals that nothing confirmed, and busy answers. */
  uncharged = 0
  /** Servers that failed it, in the order of the calls; null before the first, which most samples never leave behind. */
  tried: PoolServer[] | null = null
  /** Servers' refusals of it that nothing has confirmed; null before the first. */
  refusals: Refusal[] | null = null
  /** It waits for what the canary of a server that refused it will tell. */
  heldBy: ServerCanary | null = null
  /** Its one free repeat after a connection race is used. */
  raced = false
  /** Counts against the retries in flight at once. */
  isRetry = false
  /** Its places among the samples that are not done, and among those of its signal; −1: in neither. */
  lifeIndex = -1
  abortIndex = -1

  /** The call in flight, and the second one while there are two. */
  flight: Flight | null = null
  second: Flight | null = null

  constructor(
    request: RouteRequest,
    pool: ModelPool,
    tokens: number,
    promptTokens: number,
    nowMs: number,
  ) {
    this.request = request
    this.pool = pool
    this.tokens = tokens
    this.promptTokens = promptTokens
    this.run = request.run ?? ''
    this.group = request.group
    this.order = request.order ?? 0
    this.priorityClass =
      request.urgent === true ? 'interactive' : (request.priority ?? 0) < 0 ? 'backfill' : 'step'
    // NaN counts as no time at all; what is longer than any run is as good as that long.
    const { deadlineMs } = request
    this.deadlineAtMs =
      deadlineMs === undefined ? Number.POSITIVE_INFINITY : nowMs + Math.max(0, deadlineMs)
    this.dueAtMs = this.dueFrom(nowMs)
    this.waitingSinceMs = nowMs
    this.backoffUntilMs = nowMs
  }

  /** What the `deterministic` policy hangs the choice on. */
  abstract get key(): string | undefined
  /** It may be sent twice, and answered by an identical one's call. */
  abstract get isHedgeable(): boolean
  /** The request for a server. May throw for a shape the types forbid. Null: the sample's owner makes the call itself. */
  abstract build(server: PoolServer): EngineRequest | null
  /** Reads a complete answer and keeps what it gave, for {@link succeed}. */
  abstract read(server: PoolServer, call: HttpCall<Flight>): SampleAnswer | EngineFailure
  /** Tells its owner the good end, as last read. */
  abstract succeed(server: PoolServer): void
  /** Tells its owner that there is none. */
  abstract refuse(reason: SampleFailureReason, detail: string): void
  /** What it is scored by, where other samples may go in its call; null: it goes alone. */
  get input(): ScoreInput | null {
    return null
  }
  /** Keeps the score that a call of several samples gave it, for {@link succeed}; only where it has an {@link input}. */
  accept(_score: EngineScore): void {}
  /** Asks for a reply of so many tokens at most from now on; false where that changes nothing. */
  fit(_maxTokens: number): boolean {
    return false
  }
  /** Its slot is there; only for samples whose owner makes the call. */
  granted(_flight: Flight): void {}

  /** Its calls that count against `maxAttempts` are used up. */
  get isSpent(): boolean {
    return this.attemptsUsed - this.uncharged >= this.request.maxAttempts
  }

  /** When its time is up if the clock starts now. */
  dueFrom(nowMs: number): number {
    const { timeoutMs } = this.request
    return Math.min(
      nowMs + (timeoutMs > 0 ? Math.min(timeoutMs, MAX_TIMER_MS) : 0),
      this.deadlineAtMs,
    )
  }

  /** Stops its timer, if one runs. */
  stopTimer(): void {
    if (this.timer === null) return
    clearTimeout(this.timer)
    this.timer = null
  }

  /** True when it was sent to that server before, or is there now. */
  hasTried(server: PoolServer): boolean {
    return this.flight?.server === server || this.tried?.includes(server) === true
  }
}
