import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { EngineFailure, EngineRequest, EngineScore, ScoreInput } from '../engines/engine.ts'
import type { FairItem, PriorityClass } from './fair-queue.ts'
import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PolicyName, PolicySample } from './policies/policy.ts'
import type { PoolServer } from './pool-server.ts'
import type { Refusal } from './refusals.ts'
import type { AttemptRecord, HedgeKind, RouteRequest } from './router-types.ts'
import type { SampleQueue } from './sample-queue.ts'
import type { ServerCanary } from './server-canary.ts'
import type { WheelEntry } from './timer-wheel.ts'
import type { HttpCall } from './transport.ts'

/** Longer time limits are cut to 30 days. */
const MAX_TIMER_MS = 30 * 86_400_000

export interface SampleAnswer {
  ok: true
  /** Tokens counted by the server, or null if it does not count them. */
  tokens: number | null
  /** A further request to the same server, whose answer completes the result. Absent if the result is complete. */
  next?: EngineRequest
}

/**
 * One request in the router: a sample, a chat request to a judge, or the wait for a slot. It is queued, in back-off,
 * held until a canary has a result, in flight (twice while it is hedged), following an identical request, or done. It
 * is in the timer wheel until it is done or its slot is granted.
 */
export abstract class RoutedSample implements WheelEntry, FairItem, PolicySample {
  readonly request: RouteRequest
  readonly pool: ModelPool
  done = false

  dueAtMs: number
  /** Deadline, which applies in every state, on the clock of `performance.now()`. Infinite if there is none. */
  readonly deadlineAtMs: number
  wheelNext: WheelEntry | null = null
  wheelPrev: WheelEntry | null = null
  wheelSlot = -1

  /** Estimated size, which is the sample's cost for queues, policies and expected times. */
  readonly tokens: number
  /** Estimated tokens of the prompt, included in `tokens`. */
  readonly promptTokens: number
  chars = 0
  readonly run: string
  readonly group: string | undefined
  readonly order: number
  readonly priorityClass: PriorityClass

  /** The queue of retries or hedges that contains the sample, if any. */
  queue: SampleQueue | null = null
  queueNext: RoutedSample | null = null
  queuePrev: RoutedSample | null = null
  isQueuedFresh = false
  hedgeWanted: HedgeKind | null = null
  /** The server to which the `deterministic` policy bound the sample, while the sample waits. */
  pinned: PoolServer | null = null
  /** Start of the current wait, on the clock of `performance.now()`. */
  waitingSinceMs: number
  /** End of the back-off, after which the sample waits for a slot. */
  backoffUntilMs: number
  /** The timer that ends the back-off, or the wait for an untried server. */
  timer: NodeJS.Timeout | null = null

  readonly attempts: AttemptRecord[] = []
  /** Number of calls, without hedges and without calls that are repeated under the same attempt number. */
  attemptsUsed = 0
  /** Calls in `attemptsUsed` that do not count against `maxAttempts`: unconfirmed refusals and busy answers. */
  uncharged = 0
  /**
   * Servers on which the sample failed, in order of the calls. Null before the first failure, so that most samples
   * allocate no list.
   */
  tried: PoolServer[] | null = null
  /** Refusals of the sample, and invalid responses to it, that are not confirmed yet; null before the first. */
  refusals: Refusal[] | null = null
  heldBy: ServerCanary | null = null
  /**
   * Whether the sample was repeated after a connection race, which happens at most once without charging an attempt.
   */
  hasRaced = false
  /** Whether the sample's calls count against the retry budget. */
  isRetry = false
  /**
   * Index in the list of all unfinished samples, and index in the list of samples with the same `AbortSignal`. −1 if
   * the sample is not in that list.
   */
  lifeIndex = -1
  abortIndex = -1

  /** The call in flight, and the second one while the sample is hedged. */
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
    const { deadlineMs } = request
    this.deadlineAtMs =
      deadlineMs === undefined ? Number.POSITIVE_INFINITY : nowMs + Math.max(0, deadlineMs)
    this.dueAtMs = this.dueFrom(nowMs)
    this.waitingSinceMs = nowMs
    this.backoffUntilMs = nowMs
  }

  /** The policy that the request names. If undefined, the pool's policy applies. */
  get policy(): PolicyName | undefined {
    return undefined
  }
  /** The value that the `deterministic` policy hashes. */
  abstract get key(): string | undefined
  /** Whether the sample may be hedged, and may share a request with an identical sample. */
  abstract get isHedgeable(): boolean
  /**
   * Builds the request for a server. Returns null if the owner of the slot sends the call.
   * @throws Error for a prompt of an invalid shape
   */
  abstract build(server: PoolServer): EngineRequest | null
  /** Parses a complete answer, and keeps its result for {@link succeed}. */
  abstract read(server: PoolServer, call: HttpCall<Flight>): SampleAnswer | EngineFailure
  /** Reports the result of the last {@link read} or {@link accept} to the caller. */
  abstract succeed(server: PoolServer): void
  abstract refuse(reason: SampleFailureReason, detail: string): void
  /** The input of a sample that may be part of a micro-batch, or null if the sample must be sent alone. */
  get input(): ScoreInput | null {
    return null
  }
  /** Keeps a score from a micro-batch for {@link succeed}. Called only if the sample has an {@link input}. */
  accept(_score: EngineScore): void {}
  /**
   * Limits the reply of the next calls to this many tokens. Returns false if the limit is too small or the sample is
   * not a chat request.
   */
  fit(_maxTokens: number): boolean {
    return false
  }
  /** Number of requests that one call to the server sends, for the server's rate limit. */
  requestsTo(_server: PoolServer): number {
    return 1
  }
  /** Called when a slot is granted. Applies only to samples whose call is sent by the owner of the slot. */
  granted(_flight: Flight): void {}
  /** Called when other processes may use the granted slot, because this process's share of the limit has expired. */
  recalled(): void {}

  get isSpent(): boolean {
    return this.attemptsUsed - this.uncharged >= this.request.maxAttempts
  }

  /**
   * The end of the sample's time limit if it starts now, or the deadline if that is earlier. A time limit of NaN counts
   * as 0.
   */
  dueFrom(nowMs: number): number {
    const { timeoutMs } = this.request
    return Math.min(
      nowMs + (timeoutMs > 0 ? Math.min(timeoutMs, MAX_TIMER_MS) : 0),
      this.deadlineAtMs,
    )
  }

  stopTimer(): void {
    if (this.timer === null) return
    clearTimeout(this.timer)
    this.timer = null
  }

  /** Whether the server can take the sample's call. */
  canUse(_server: PoolServer): boolean {
    return true
  }
  /** The servers in the list that can take the sample's call. */
  usableOf(servers: readonly PoolServer[]): readonly PoolServer[] {
    return servers
  }

  /** Whether the sample failed on the server before, or has its first call in flight there. */
  hasTried(server: PoolServer): boolean {
    return this.flight?.server === server || this.tried?.includes(server) === true
  }
}
