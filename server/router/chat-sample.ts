import type { SampleFailureReason } from '../contract/sample-reason.ts'
import { buildChatRequest, parseChatResponse } from '../engines/chat.ts'
import type { ChatReply, EngineFailure, EngineRequest } from '../engines/engine.ts'
import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import { RoutedSample, type SampleAnswer } from './routed-sample.ts'
import type { RouterChatRequest, RouterChatResult } from './router-types.ts'
import type { HttpCall } from './transport.ts'

/** Estimated length of a reply, in tokens, unless the request allows fewer. */
const REPLY_TOKENS = 256

/**
 * Minimum of `maxTokens` in a retry. A retry reduces a `maxTokens` that does not fit the context. If the context leaves
 * less than this minimum, the sample fails with the server's error.
 */
const MIN_REPLY_TOKENS = 16

/** A chat request to a judge. It is never hedged: a judge's replies differ, and hedging would prefer the fast ones. */
export class ChatSample extends RoutedSample {
  declare readonly request: RouterChatRequest
  readonly #resolve: (result: RouterChatResult) => void
  #reply: ChatReply | null = null
  /** Tokens that the context leaves for the reply, as reported by a server, or null if no request was too long. */
  #maxTokens: number | null = null

  constructor(
    request: RouterChatRequest,
    pool: ModelPool,
    resolve: (result: RouterChatResult) => void,
    nowMs: number,
  ) {
    const { chat } = request
    let chars = 0
    for (const { content } of chat.messages) chars += content.length
    const replyTokens = Math.min(chat.maxTokens ?? REPLY_TOKENS, REPLY_TOKENS)
    super(request, pool, pool.estimate.tokensOf(chars) + replyTokens, 0, nowMs)
    this.#resolve = resolve
  }

  get key(): string | undefined {
    return this.request.key ?? this.request.chat.messages.at(-1)?.content
  }

  get isHedgeable(): boolean {
    return false
  }

  build(server: PoolServer): EngineRequest {
    const { chat } = this.request
    const fitted = this.#maxTokens === null ? chat : { ...chat, maxTokens: this.#maxTokens }
    return buildChatRequest(server.engine.name, fitted, server.target)
  }

  read(_server: PoolServer, call: HttpCall<Flight>): SampleAnswer | EngineFailure {
    const reply = parseChatResponse(call.status, call.headers, call.bodyText())
    if (!reply.ok) return reply
    this.#reply = reply
    const { promptTokens, completionTokens } = reply
    return {
      ok: true,
      tokens: promptTokens === null ? null : promptTokens + (completionTokens ?? 0),
    }
  }

  override fit(maxTokens: number): boolean {
    const requested = this.#maxTokens ?? this.request.chat.maxTokens ?? Number.POSITIVE_INFINITY
    if (maxTokens >= requested || maxTokens < MIN_REPLY_TOKENS) return false
    this.#maxTokens = maxTokens
    return true
  }

  succeed(server: PoolServer): void {
    this.#resolve({
      ok: true,
      reply: this.#reply as ChatReply,
      serverId: server.id,
      attempts: this.attempts,
    })
  }

  refuse(reason: SampleFailureReason, detail: string): void {
    this.#resolve({ ok: false, reason, detail, attempts: this.attempts })
  }
}
