import type { SampleFailureReason } from '../contract/sample-reason.ts'
import { failure } from '../engines/answer.ts'
import type { EngineFailure } from '../engines/engine.ts'
import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PolicyName } from './policies/policy.ts'
import type { PoolServer } from './pool-server.ts'
import { RoutedSample, type SampleAnswer } from './routed-sample.ts'
import type { RouterSlot, SlotEnd, SlotRefusal, SlotRequest } from './router-types.ts'

/**
 * Maximum wait for a healthy server if the request has no deadline. The wait is limited, because the time limit of the
 * client is unknown.
 */
const WITHOUT_SERVER_MS = 10_000

export type SlotResult = { ok: true; slot: RouterSlot } | SlotRefusal

/** A request for a slot. The owner of the slot sends the call. */
export class SlotSample extends RoutedSample {
  readonly slotRequest: SlotRequest
  readonly #resolve: (result: SlotResult) => void
  readonly #onRelease: (flight: Flight, end: SlotEnd) => void

  constructor(
    request: SlotRequest,
    pool: ModelPool,
    resolve: (result: SlotResult) => void,
    onRelease: (flight: Flight, end: SlotEnd) => void,
    nowMs: number,
  ) {
    super(
      { ...request, timeoutMs: request.deadlineMs ?? WITHOUT_SERVER_MS, maxAttempts: 1 },
      pool,
      Math.max(1, request.tokens),
      0,
      nowMs,
    )
    this.slotRequest = request
    this.#resolve = resolve
    this.#onRelease = onRelease
    if (request.avoid !== undefined && request.avoid.length > 0) {
      this.tried = pool.servers.filter((server) => request.avoid?.includes(server.id))
      if (this.tried.length === 0) this.tried = null
      else this.isRetry = true
    }
  }

  override get policy(): PolicyName | undefined {
    return this.slotRequest.policy
  }

  get key(): string | undefined {
    return this.slotRequest.key
  }

  override canUse({ id }: PoolServer): boolean {
    return this.slotRequest.exclude?.includes(id) !== true
  }

  override usableOf(servers: readonly PoolServer[]): readonly PoolServer[] {
    if (this.slotRequest.exclude === undefined) return servers
    return servers.filter((server) => this.canUse(server))
  }

  get isHedgeable(): boolean {
    return false
  }

  build(): null {
    return null
  }

  read(): SampleAnswer | EngineFailure {
    return failure('fault', 'transport', 'a slot has no answer of its own')
  }

  succeed(): void {}

  override granted(flight: Flight): void {
    const { server, queueMs } = flight
    let isReleased = false
    const slot: RouterSlot = {
      serverId: server.id,
      serverName: server.name,
      engine: server.engine.name,
      url: server.url,
      apiKey: server.apiKey,
      queueMs,
      hasShare: server.hasShare,
      release: (end) => {
        if (isReleased) return
        isReleased = true
        this.#onRelease(flight, end)
      },
    }
    this.#resolve({ ok: true, slot })
  }

  override recalled(): void {
    this.slotRequest.onRecall?.()
  }

  refuse(reason: SampleFailureReason, detail: string): void {
    if (reason === 'deadline' || reason === 'cancelled') this.#resolve({ ok: false, reason })
    else {
      this.#resolve({
        ok: false,
        reason: 'no_server',
        detail,
        retryAfterMs: this.pool.suggestedRetryMs(performance.now()),
      })
    }
  }
}
