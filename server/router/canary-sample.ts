import type { SampleFailureReason } from '../contract/sample-reason.ts'
import { buildChatRequest, parseChatResponse } from '../engines/chat.ts'
import type { ChatRequest, EngineFailure, EngineRequest, ScoreInput } from '../engines/engine.ts'
import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import { RoutedSample, type SampleAnswer } from './routed-sample.ts'
import type { HttpCall } from './transport.ts'

/** Time limit of a canary: it waits in the server's queue behind a step's samples. */
const CANARY_TIMEOUT_MS = 30_000
/** Estimated tokens of a canary. */
const CANARY_TOKENS = 16
/** The canary of a judge: any reply shows that the judge works. */
const CHAT: ChatRequest = {
  messages: [{ role: 'user', content: 'Answer with the word yes.' }],
  maxTokens: 16,
}

/**
 * A test text whose score, or a judge's reply, shows that a server works. It belongs to no batch and is sent to one
 * server only.
 */
export class CanarySample extends RoutedSample {
  /** Why it has no score; null also if no answer arrived. */
  failure: EngineFailure | null = null
  /** It was cancelled because the router closed or no sample of the pool is left. */
  wasCancelled = false
  readonly #input: ScoreInput | null
  readonly #onEnd: (canary: CanarySample, problem: string | null) => void

  /** `input`: null for a judge. `onEnd` receives the problem, or null on success. */
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
    // A withheld reply or a reward function's own error: the server works.
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
