import type { SampleFailureReason } from '../contract/sample-reason.ts'
import { buildChatRequest, parseChatResponse } from '../engines/chat.ts'
import type { ChatRequest, EngineFailure, EngineRequest, ScoreInput } from '../engines/engine.ts'
import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import { RoutedSample, type SampleAnswer } from './routed-sample.ts'
import type { HttpCall } from './transport.ts'

/** Time limit of a canary. It is long, because the canary may wait inside the server behind the samples of a step. */
const CANARY_TIMEOUT_MS = 30_000
const CANARY_TOKENS = 16
/** The chat request of a judge's canary. Any reply shows that the judge works. */
const CHAT: ChatRequest = {
  messages: [{ role: 'user', content: 'Answer with the word yes.' }],
  maxTokens: 16,
}

/**
 * A test request to one server. A score, or a judge's reply, shows that the server works. A canary belongs to no batch.
 */
export class CanarySample extends RoutedSample {
  /** The failure of the canary's call; null if the call succeeded, was cancelled or timed out. */
  failure: EngineFailure | null = null
  /** Whether the canary was cancelled, because the router closed or the pool has no unfinished samples. */
  wasCancelled = false
  readonly #input: ScoreInput | null
  readonly #onEnd: (canary: CanarySample, problem: string | null) => void

  /** `input` is null for a judge. `onEnd` receives the problem, or null on success. */
  constructor(
    pool: ModelPool,
    input: ScoreInput | null,
    onEnd: (canary: CanarySample, problem: string | null) => void,
    nowMs: number,
  ) {
    super(
      { model: pool.model, timeoutMs: CANARY_TIMEOUT_MS, maxAttempts: 1 },
      pool,
      CANARY_TOKENS,
      0,
      nowMs,
    )
    this.#input = input
    this.#onEnd = onEnd
  }

  get key(): undefined {
    return undefined
  }

  get isHedgeable(): boolean {
    return false
  }

  build(server: PoolServer): EngineRequest {
    return this.#input === null
      ? buildChatRequest(server.engine.name, CHAT, server.target)
      : server.engine.buildScoreRequest(this.#input, server.target)
  }

  read(server: PoolServer, call: HttpCall<Flight>): SampleAnswer | EngineFailure {
    const { status, headers } = call
    const answer =
      this.#input === null
        ? parseChatResponse(status, headers, call.bodyText())
        : server.engine.parseScoreResponse(status, headers, call.bodyText(), server.target)
    if (answer.ok) return { ok: true, tokens: answer.promptTokens ?? null }
    // A withheld reply, or an error that a custom scorer reports, also shows that the server works.
    const works = answer.class === 'client' && answer.unconfirmed !== true && status < 300
    return works ? { ok: true, tokens: null } : answer
  }

  succeed(): void {
    this.#onEnd(this, null)
  }

  refuse(_reason: SampleFailureReason, detail: string): void {
    this.#onEnd(this, detail)
  }
}
