import { clip, failure, field, onlyElement, readJsonAnswer } from './answer.ts'
import type {
  ChatReply,
  ChatRequest,
  EngineFailure,
  EngineName,
  EngineRequest,
  EngineTarget,
  ResponseHeaders,
} from './engine.ts'
import { wellFormed } from './sample-text.ts'
import { rootOf } from './server-url.ts'

export function buildChatRequest(
  engine: EngineName,
  chat: ChatRequest,
  target: EngineTarget,
): EngineRequest {
  const openai = engine === 'openai'
  const { jsonSchema, topLogprobs } = chat
  return {
    path: `${rootOf(target.basePath)}/v1/chat/completions`,
    body: JSON.stringify({
      model: target.model ?? (engine === 'sglang' ? 'default' : undefined),
      messages: chat.messages.map(({ role, content }) => ({ role, content: wellFormed(content) })),
      temperature: chat.temperature ?? 0,
      top_p: chat.topP,
      // OpenAI's newest models refuse `max_tokens`; older releases of the engines do not know `max_completion_tokens`.
      [openai ? 'max_completion_tokens' : 'max_tokens']: chat.maxTokens,
      stop: chat.stop,
      seed: chat.seed,
      logprobs: topLogprobs === undefined ? undefined : true,
      top_logprobs: topLogprobs,
      // `guided_json` is not used: vLLM dropped it in November 2025 and has ignored it silently since.
      response_format:
        jsonSchema === undefined
          ? undefined
          : {
              type: 'json_schema',
              json_schema: { name: jsonSchema.name, schema: jsonSchema.schema, strict: true },
            },
      chat_template_kwargs: openai ? undefined : chat.chatTemplateKwargs,
    }),
  }
}

/**
 * Reads the HTTP response of a judge. Never throws. A reply cut off at the token limit is returned as `truncated`. An
 * aborted reply is a failure, although the HTTP status is 200.
 */
export function parseChatResponse(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
): ChatReply | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  const only = onlyElement(field(answer.value, 'choices'), 'choices')
  if (!('item' in only)) return only
  const choice = only.item
  const message = field(choice, 'message')
  if (typeof message !== 'object' || message === null) {
    return failure('corrupt', 'unparseable', 'choices[0].message is not an object')
  }
  const content = contentText(field(message, 'content'))
  const finish = finishReason(choice)
  const truncated = finish === 'length'
  if (finish !== 'stop' && !truncated) return unfinished(finish)
  const refusal = field(message, 'refusal')
  if (typeof refusal === 'string' && refusal !== '') {
    return failure('client', 'rejected', `the model refused: ${refusal}`)
  }
  if (content === null && !truncated) {
    return failure('client', 'unparseable', 'the reply has no content, only reasoning or nothing')
  }
  const usage = field(answer.value, 'usage')
  return {
    ok: true,
    // A reasoning model may use all tokens before its reply begins.
    content: content ?? '',
    // Newer vLLM has `reasoning`; older vLLM, SGLang and llama.cpp have `reasoning_content`.
    reasoning: text(field(message, 'reasoning')) ?? text(field(message, 'reasoning_content')),
    finishReason: finish,
    truncated,
    promptTokens: count(field(usage, 'prompt_tokens')),
    completionTokens: count(field(usage, 'completion_tokens')),
    logprobs: logprobsOf(field(field(choice, 'logprobs'), 'content')),
  }
}

/** Returns the finish reason, or null if there is none. In SGLang's native format, it is an object with a `type`. */
function finishReason(choice: unknown): string | null {
  const reason = field(choice, 'finish_reason')
  return text(reason) ?? text(field(reason, 'type'))
}

function unfinished(finish: string | null): EngineFailure {
  switch (finish) {
    case 'abort':
    case 'error':
      return failure(
        'fault',
        'transport',
        `the server ended the reply with finish_reason ${finish}`,
      )
    case 'content_filter':
      return failure('client', 'rejected', 'the reply was withheld: finish_reason content_filter')
    case 'tool_calls':
    case 'function_call':
      return failure('client', 'unparseable', 'the model called a tool, and none was offered')
    case null:
      return failure('corrupt', 'unparseable', 'choices[0].finish_reason is missing')
    default:
      return failure('corrupt', 'unparseable', `the reply ended with finish_reason ${clip(finish)}`)
  }
}

/** Returns the content as text; some servers return a list of parts. */
function contentText(content: unknown): string | null {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return null
  const texts = content.map((part) => field(part, 'text'))
  return texts.every((part) => typeof part === 'string') ? texts.join('') : null
}

function logprobsOf(entries: unknown): ChatReply['logprobs'] {
  if (!Array.isArray(entries)) return null
  const tokens: NonNullable<ChatReply['logprobs']> = []
  for (const entry of entries) {
    const chosen = tokenOf(entry)
    if (chosen === null) return null
    const others = field(entry, 'top_logprobs')
    const top = Array.isArray(others) ? others.map(tokenOf).filter((other) => other !== null) : []
    tokens.push({ ...chosen, top })
  }
  return tokens
}

function tokenOf(entry: unknown): { token: string; logprob: number } | null {
  const token = field(entry, 'token')
  const logprob = field(entry, 'logprob')
  return typeof token === 'string' && Number.isFinite(logprob)
    ? { token, logprob: logprob as number }
    : null
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}

function count(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : null
}
