import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type {
  EngineFailure,
  EngineRequest,
  EngineScore,
  ScoreInput,
  TokenProtocol,
} from '../engines/engine.ts'
import type { Flight } from './flight.ts'
import type { ModelPool } from './model-pool.ts'
import type { PoolServer } from './pool-server.ts'
import { RoutedSample, type SampleAnswer } from './routed-sample.ts'
import type { RouterResult, ScoreRequest } from './router-types.ts'
import type { HttpCall } from './transport.ts'

export class ScoreSample extends RoutedSample {
  declare readonly request: ScoreRequest
  readonly #resolve: (result: RouterResult) => void
  #score: EngineScore | null = null
  /** Identical samples that wait for the score of this one, if any. */
  followers: ScoreSample[] | null = null
  leader: ScoreSample | null = null

  constructor(
    request: ScoreRequest,
    pool: ModelPool,
    resolve: (result: RouterResult) => void,
    nowMs: number,
  ) {
    const prompt = promptCharsOf(request.input)
    const chars = prompt + request.input.response.length
    const tokens = pool.estimate.tokensOf(chars)
    super(request, pool, tokens, chars === 0 ? 0 : (tokens * prompt) / chars, nowMs)
    this.chars = chars
    this.#resolve = resolve
  }

  override get input(): ScoreInput | null {
    return this.isHedgeable && this.request.needsTokenOffsets !== true ? this.request.input : null
  }

  get key(): string {
    return this.request.key ?? this.request.input.response
  }

  get isHedgeable(): boolean {
    return !this.pool.isSentOnce
  }

  build(server: PoolServer): EngineRequest {
    return server.engine.buildScoreRequest(this.request.input, server.target)
  }

  override requestsTo({ engine, target }: PoolServer): number {
    const isSent = this.request.needsTokenOffsets === true && engine.tokens !== undefined
    return isSent && target.route === 'token' ? 2 : 1
  }

  read(server: PoolServer, call: HttpCall<Flight>): SampleAnswer | EngineFailure {
    const flight = call.context
    if (flight.scored !== null) return this.#aligned(server, call, flight.scored)
    const answer = server.engine.parseScoreResponse(
      call.status,
      call.headers,
      call.bodyText(),
      server.target,
    )
    if (!answer.ok) return answer
    if (this.requestsTo(server) > 1 && answer.tokenScores !== undefined) {
      flight.scored = answer
      const next = (server.engine.tokens as TokenProtocol).build(this.request.input, server.target)
      return { ok: true, tokens: null, next }
    }
    return this.#complete(server, answer)
  }

  /** Completes a score with the offsets of its tokens. */
  #aligned(
    server: PoolServer,
    call: HttpCall<Flight>,
    score: EngineScore,
  ): SampleAnswer | EngineFailure {
    const offsets = (server.engine.tokens as TokenProtocol).parse(
      ...([call.status, call.headers, call.bodyText()] as const),
      score.tokenScores?.length ?? 0,
      ...([this.request.input, server.target] as const),
    )
    if ('ok' in offsets) return offsets
    return this.#complete(server, { ...score, tokenOffsets: offsets })
  }

  #complete(server: PoolServer, answer: EngineScore): SampleAnswer {
    this.accept(answer)
    server.canary.knows(this.request.input, this.chars)
    const tokens = answer.promptTokens ?? null
    if (tokens !== null) this.pool.estimate.seen(this.chars, tokens)
    return { ok: true, tokens }
  }

  override accept(score: EngineScore): void {
    this.#score = score
  }

  succeed(server: PoolServer): void {
    const result = this.#result(server)
    this.#resolve(result)
  }

  refuse(reason: SampleFailureReason, detail: string): void {
    this.#resolve({ ok: false, reason, detail, attempts: this.attempts })
  }

  succeedAs(leader: ScoreSample, server: PoolServer): void {
    this.#shareCall(leader)
    this.#score = leader.#score
    this.#resolve({ ...this.#result(server), shared: true })
  }

  refuseAs(leader: ScoreSample, reason: SampleFailureReason, detail: string): void {
    this.#shareCall(leader)
    this.refuse(reason, detail)
  }

  #shareCall(leader: ScoreSample): void {
    const call = leader.attempts.at(-1)
    if (call === undefined) return
    const waitedMs = Math.max(0, performance.now() - this.waitingSinceMs - call.serviceMs)
    const { callNo: _, ...shared } = call
    this.attempts.push({ ...shared, attempt: 1, queueMs: waitedMs, backoffMs: 0 })
  }

  #result(server: PoolServer): RouterResult & { ok: true } {
    const { score, promptTokens, tokenScores, tokenOffsets, extra } = this.#score as EngineScore
    return {
      ok: true,
      score,
      serverId: server.id,
      promptTokens: promptTokens ?? null,
      ...(tokenScores === undefined ? {} : { tokenScores }),
      ...(tokenOffsets === undefined ? {} : { tokenOffsets }),
      ...(extra === undefined ? {} : { extra }),
      attempts: this.attempts,
    }
  }
}

function promptCharsOf({ prompt }: ScoreRequest['input']): number {
  if (typeof prompt === 'string') return prompt.length
  let chars = 0
  if (Array.isArray(prompt)) for (const turn of prompt) chars += turn.content?.length ?? 0
  return chars
}
