import { type Answer, type Call, json } from '../call.ts'
import { jsonOfSchema, logprobsOf, plainReply, type Reply, ratedReply, ratingOf } from '../judge.ts'
import type { Job, Outcome, Running, Simulation } from '../simulation.ts'
import { countTokens, pairOfMessages, textId } from '../text.ts'
import { before } from './versions.ts'

export type RefuseRequest = (
  what: 'invalid' | 'context' | 'model',
  message: string,
  tokens?: { prompt: number; limit: number },
) => Answer

interface ChatBody {
  model?: unknown
  messages?: unknown
  max_tokens?: unknown
  max_completion_tokens?: unknown
  stop?: unknown
  stream?: unknown
  stream_options?: { include_usage?: unknown } | null
  logprobs?: unknown
  top_logprobs?: unknown
  response_format?: Record<string, unknown> | null
  structured_outputs?: Record<string, unknown> | null
}

/** Minimum interval between progress checks of a reply, in ms. */
const EMIT_MS = 2

/** Answers POST /v1/chat/completions as OpenAI's API does: as a whole, or token by token as server-sent events. */
export function chatCompletions(simulation: Simulation, call: Call, refuse: RefuseRequest): void {
  const { settings } = simulation
  const body = call.json() as ChatBody | null | undefined
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    call.send(refuse('invalid', 'the body is not a JSON object'))
    return
  }
  const { model } = body
  // llama.cpp serves its model under any name, and cuts a reply at the end of the context.
  const isLlamacpp = settings.dialect === 'llamacpp'
  // vLLM also cuts replies at the end of the context since a release after 0.14.0, here taken as 0.16. Earlier releases
  // refuse such requests.
  const isCapped =
    isLlamacpp || (settings.dialect === 'vllm' && !before(settings.version, [0, 16, 0]))
  if (typeof model === 'string' && model !== settings.model && !isLlamacpp) {
    call.send(refuse('model', `The model \`${model}\` does not exist.`))
    return
  }
  const pair = pairOfMessages(body.messages)
  if (pair === null) {
    call.send(refuse('invalid', 'messages: every message needs a `role` and a `content`'))
    return
  }
  if (typeof body.top_logprobs === 'number' && body.logprobs !== true) {
    call.send(refuse('invalid', 'when using `top_logprobs`, `logprobs` must be set to true.'))
    return
  }
  const text = pair.response === '' ? pair.prompt : `${pair.prompt}\n${pair.response}`
  const promptTokens = countTokens(text, settings.charsPerToken)
  const requested = Number(body.max_completion_tokens ?? body.max_tokens ?? 0)
  if (promptTokens + (isCapped ? 0 : requested) > settings.maxModelLen) {
    const { maxModelLen: limit } = settings
    const message = `This model's maximum context length is ${limit} tokens. However, you requested ${promptTokens + requested} tokens (${promptTokens} in the messages, ${requested} in the completion). Please reduce the length of the messages or completion.`
    call.send(refuse('context', message, { prompt: promptTokens, limit }))
    return
  }
  const id = textId(pair.prompt, pair.response)
  const whole = replyTo(simulation, id, body)
  const room = settings.maxModelLen - promptTokens
  const limit = requested > 0 ? Math.min(requested, room) : room
  const reply = { ...whole, tokens: whole.tokens.slice(0, limit) }
  const job: Job = {
    id,
    prompt: text,
    response: '',
    promptTokens,
    tokens: promptTokens + reply.tokens.length,
    fixedMs: settings.tokenDelayMs * reply.tokens.length,
  }
  const finishReason = reply.tokens.length < whole.tokens.length ? 'length' : 'stop'
  const completion = new Completion(simulation, body, id, promptTokens)
  if (body.stream === true) {
    streamReply(simulation, call, job, completion, reply, finishReason)
    return
  }
  simulation.run(call, [job], (outcome) => {
    const [given, reason] = spoiled(reply, finishReason, outcome)
    return json(200, completion.whole(given, reason, outcome))
  })
}

function streamReply(
  simulation: Simulation,
  call: Call,
  job: Job,
  completion: Completion,
  reply: Reply,
  finishReason: string,
): void {
  let sent = 0
  let timer: NodeJS.Timeout | undefined
  const sendUntil = (until: number) => {
    if (sent === 0 && until > 0) call.event(completion.chunk({ role: 'assistant', content: '' }))
    for (; sent < until; sent++) {
      call.event(completion.chunk({ content: reply.tokens[sent] }, null, reply, sent))
    }
  }
  const running: Running = simulation.run(call, [job], (outcome) => {
    clearInterval(timer)
    const [given, reason] = spoiled(reply, finishReason, outcome)
    if (given === null || outcome.struck.fault === 'wrongLength') {
      call.event(completion.chunk(given === null ? { content: null } : undefined))
    } else {
      // An aborted reply may have fewer tokens than were already streamed; no further tokens are sent then.
      sendUntil(given.tokens.length)
    }
    if (outcome.struck.fault === 'dieMidBody') {
      call.cut()
      return null
    }
    call.event(completion.chunk({}, reason))
    if (completion.wantsUsage) call.event(completion.usageChunk(sent))
    call.event('[DONE]')
    call.endStream()
    return null
  })
  if (call.over || job.fixedMs === 0) return
  timer = setInterval(
    () =>
      sendUntil(
        Math.min(reply.tokens.length - 1, Math.floor(running.progress() * reply.tokens.length)),
      ),
    Math.max(EMIT_MS, simulation.settings.tokenDelayMs),
  )
  call.onEnd(() => clearInterval(timer))
}

/** The reply and its finish reason with faults applied. The reply is null if it has no content. */
function spoiled(reply: Reply, reason: string, outcome: Outcome): [Reply | null, string] {
  const { struck, abortedAt } = outcome
  const upTo = (share: number) => ({
    ...reply,
    tokens: reply.tokens.slice(0, Math.floor(reply.tokens.length * share)),
  })
  if (abortedAt !== null) return [upTo(abortedAt), 'abort']
  if (struck.fault === 'abort') return [upTo(0.5), 'abort']
  if (struck.fault === 'dieMidBody') return [upTo(0.5), reason]
  if (struck.fault === 'null') return [null, reason]
  if (struck.fault === 'nan') return [ratedReply('0'.repeat(16), 0, 0, false), reason]
  return [reply, reason]
}

function replyTo(simulation: Simulation, id: string, body: ChatBody): Reply {
  const { weights, settings } = simulation
  const rating = ratingOf(id, weights)
  const format = body.response_format
  const schema =
    format?.type === 'json_schema'
      ? ((format.json_schema as { schema?: unknown } | undefined)?.schema ?? format.schema ?? {})
      : format?.type === 'json_object'
        ? (format.schema ?? { type: 'object', properties: { rating: { type: 'integer' } } })
        : body.structured_outputs?.json
  let reply: Reply
  if (schema !== undefined) {
    reply = plainReply(id, JSON.stringify(jsonOfSchema(schema, rating)))
  } else if (Array.isArray(body.structured_outputs?.choice)) {
    const choices = body.structured_outputs.choice as string[]
    reply = plainReply(id, String(choices[rating % choices.length]))
  } else reply = ratedReply(id, weights, settings.replyTokens, true)
  return stopped(reply, body.stop)
}

function stopped(reply: Reply, stop: unknown): Reply {
  const stops = (Array.isArray(stop) ? stop : [stop]).filter(
    (text): text is string => typeof text === 'string' && text !== '',
  )
  const text = reply.tokens.join('')
  const at = Math.min(...stops.map((word) => text.indexOf(word)).filter((index) => index >= 0))
  if (!Number.isFinite(at)) return reply
  const tokens: string[] = []
  let length = 0
  for (const token of reply.tokens) {
    if (length >= at) break
    tokens.push(token.slice(0, at - length))
    length += token.length
  }
  return { ...reply, tokens }
}

class Completion {
  readonly wantsUsage: boolean
  readonly #simulation: Simulation
  readonly #id: string
  readonly #promptTokens: number
  readonly #topLogprobs: number | null
  readonly #createdSeconds = Math.floor(Date.now() / 1000)

  constructor(simulation: Simulation, body: ChatBody, id: string, promptTokens: number) {
    this.#simulation = simulation
    this.#id = `chatcmpl-${id}`
    this.#promptTokens = promptTokens
    this.#topLogprobs = body.logprobs === true ? Number(body.top_logprobs ?? 0) : null
    this.wantsUsage = body.stream_options?.include_usage === true
  }

  whole(reply: Reply | null, finishReason: string, outcome: Outcome): unknown {
    const logprobs = reply === null ? null : this.#logprobs(reply)
    const isLlamacpp = this.#simulation.settings.dialect === 'llamacpp'
    const choice = {
      index: 0,
      message: { role: 'assistant', content: reply?.tokens.join('') ?? null },
      finish_reason: finishReason,
      // llama.cpp omits absent fields.
      ...(isLlamacpp && logprobs === null ? {} : { logprobs }),
      ...(isLlamacpp ? {} : { stop_reason: null }),
    }
    return {
      ...this.#head('chat.completion'),
      choices: outcome.struck.fault === 'wrongLength' ? [] : [choice],
      usage: this.#usage(reply?.tokens.length ?? 0),
    }
  }

  /** One streamed chunk. Without `delta` it has no choices. */
  chunk(delta?: object, finishReason: string | null = null, reply?: Reply, token?: number): string {
    const one =
      reply === undefined || token === undefined
        ? null
        : this.#logprobs({ ...reply, tokens: [reply.tokens[token] as string] })
    const choice = { index: 0, delta, logprobs: one, finish_reason: finishReason }
    return JSON.stringify({
      ...this.#head('chat.completion.chunk'),
      choices: delta === undefined ? [] : [choice],
    })
  }

  usageChunk(completionTokens: number): string {
    const usage = this.#usage(completionTokens)
    return JSON.stringify({ ...this.#head('chat.completion.chunk'), choices: [], usage })
  }

  #head(object: string) {
    const { model } = this.#simulation.settings
    return { id: this.#id, object, created: this.#createdSeconds, model }
  }

  #usage(completionTokens: number) {
    return {
      prompt_tokens: this.#promptTokens,
      completion_tokens: completionTokens,
      total_tokens: this.#promptTokens + completionTokens,
    }
  }

  #logprobs(reply: Reply) {
    return this.#topLogprobs === null ? null : { content: logprobsOf(reply, this.#topLogprobs) }
  }
}
