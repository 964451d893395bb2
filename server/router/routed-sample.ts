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

/** 30 days. */
const MAX_TIMER_MS = 30 * 86_400_000

/** A call's success, with the tokens counted by the server. */
export interface SampleAnswer {
  ok: true
  tokens: number | null
}

/**
 * One request in the router: a sample, a chat with a judge, or the wait for a slot. It is queued, in back-off, in flight
 * (twice while a hedge is out), following an identical request, or done. It is in the timer wheel until it is done.
 */
export abstract class RoutedSample implements WheelEntry, FairItem, PolicySample {
  readonly request: RouteRequest
  readonly pool: ModelPool
  done = false

  dueAtMs: number
  /** Its batch's deadline, which applies in every state. */
  readonly deadlineAtMs: number
  wheelNext: WheelEntry | null = null
  wheelPrev: WheelEntry | null = null
  wheelSlot = -1

  /** Estimated size; its cost for queues, policies and expected times. */
  readonly tokens: number
  /** The prompt's part of `tokens`. */
  readonly promptTokens: number
  /** Characters of its {@link input}. */
  chars = 0
  readonly run: string
  readonly group: string | undefined
  readonly order: number
  readonly priorityClass: PriorityClass

  /** The queue of retries or hedges that contains it. */
  queue: SampleQueue | null = null
  queueNext: RoutedSample | null = null
  queuePrev: RoutedSample | null = null
  /** Whether it is in the pool's fair queue. */
  isQueuedFresh = false
  /** The kind of hedge it waits to be sent as, if any. */
  hedgeWanted: HedgeKind | null = null
  /** The server to which the `deterministic` policy bound it, regardless of load. */
  pinned: PoolServer | null = null
  /** When its present wait began, on the clock of `performance.now()`. */
  waitingSinceMs: number
  /** End of its back-off; after that it waits for a slot. */
  backoffUntilMs: number
  /** Ends its back-off, or its patience for an untried server. */
  timer: NodeJS.Timeout | null = null

  readonly attempts: AttemptRecord[] = []
  /** Calls begun, without hedges. */
  attemptsUsed = 0
  /** Calls that do not count against `maxAttempts`: unconfirmed refusals and busy answers. */
  uncharged = 0
  /**
   * Servers that failed it, in order of the calls; null before the first failure, so that most samples allocate no list.
   */
  tried: PoolServer[] | null = null
  /** Its unconfirmed refusals; null before the first. */
  refusals: Refusal[] | null = null
  /** The canary whose result it waits for. */
  heldBy: ServerCanary | null = null
  /** Whether its only free repeat after a connection race is used. */
  hasRaced = false
  /** Whether it counts against the retry budget. */
  isRetry = false
  /** Its indexes among all unfinished samples and among those of its signal; −1: in neither. */
  lifeIndex = -1
  abortIndex = -1

  /** The call in flight, and a second one while it is hedged. */
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
    // NaN counts as no time; longer times are capped at 30 days.
    const { deadlineMs } = request
    this.deadlineAtMs =
      deadlineMs === undefined ? Number.POSITIVE_INFINITY : nowMs + Math.max(0, deadlineMs)
    this.dueAtMs = this.dueFrom(nowMs)
    this.waitingSinceMs = nowMs
    this.backoffUntilMs = nowMs
  }

  /** The value that the `deterministic` policy hashes. */
  abstract get key(): string | undefined
  /** Whether it may be hedged, and answered by an identical sample's call. */
  abstract get isHedgeable(): boolean
  /**
   * Builds the request for a server; null: the sample's owner makes the call. May throw for a prompt of an invalid shape.
   */
  abstract build(server: PoolServer): EngineRequest | null
  /** Parses a complete answer and keeps its result for {@link succeed}. */
  abstract read(server: PoolServer, call: HttpCall<Flight>): SampleAnswer | EngineFailure
  /** Reports the result to its owner, as last read. */
  abstract succeed(server: PoolServer): void
  /** Reports to its owner that there is no result. */
  abstract refuse(reason: SampleFailureReason, detail: string): void
  /** The text to score, if it may be part of a micro-batch; null: it is sent alone. */
  get input(): ScoreInput | null {
    return null
  }
  /** Keeps its score from a micro-batch for {@link succeed}; called only if it has an {@link input}. */
  accept(_score: EngineScore): void {}
  /** Limits the reply to this many tokens from now on; false if that changes nothing. */
  fit(_maxTokens: number): boolean {
    return false
  }
  /** Called when its slot is available; only for samples whose owner makes the call. */
  granted(_flight: Flight): void {}

  /** Whether the calls that count against `maxAttempts` are used up. */
  get isSpent(): boolean {
    return this.attemptsUsed - this.uncharged >= this.request.maxAttempts
  }

  /** The end of its time if the clock starts now. */
  dueFrom(nowMs: number): number {
    const { timeoutMs } = this.request
    return Math.min(
      nowMs + (timeoutMs > 0 ? Math.min(timeoutMs, MAX_TIMER_MS) : 0),
      this.deadlineAtMs,
    )
  }

  /** Clears its timer, if one runs. */
  stopTimer(): void {
    if (this.timer === null) return
    clearTimeout(this.timer)
    this.timer = null
  }

  /** Whether it was sent to that server before or is in flight there. */
  hasTried(server: PoolServer): boolean {
    return this.flight?.server === server || this.tried?.includes(server) === true
  }
}
