import { type Conversation, splitText } from './conversation.ts'
import type { ScoreKind } from './score.ts'
import { hashScore, rawScore } from './score.ts'

/** vLLM's error body since August 2025. */
export interface VllmError {
  status: number
  message: string
  type: string
  param: string | null
}

/** A /classify request as far as it is honoured. */
export interface ClassifyRequest {
  /** One for the chat form, one a text for the completion form. */
  conversations: Conversation[]
  /** Tokens by the server's own count: UTF-16 units over 4, rounded up. */
  tokens: number[]
  activate: boolean
}

interface ClassifyBody {
  model?: unknown
  input?: unknown
  messages?: unknown
  use_activation?: unknown
  truncate_prompt_tokens?: unknown
  truncation_side?: unknown
  normalize?: unknown
}

/**
 * Reads a /classify body: the completion form (`input`: a text or several) or the chat form (`messages`).
 * Unknown fields are passed over, as vLLM does, `activation` among them.
 */
export function readClassifyRequest(
  body: unknown,
  server: { model: string; maxModelLen: number },
): ClassifyRequest | VllmError {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return bad('Input should be a valid dictionary', null)
  }
  const { model, input, messages, normalize, use_activation: activation } = body as ClassifyBody
  if (normalize !== undefined && normalize !== null) {
    return bad('Parameter `normalize` was removed; use `use_activation`', 'normalize')
  }
  if (activation !== undefined && activation !== null && typeof activation !== 'boolean') {
    return bad('use_activation: Input should be a valid boolean', 'use_activation')
  }
  if (model !== undefined && model !== null && model !== server.model) {
    return {
      status: 404,
      message: `The model \`${String(model)}\` does not exist.`,
      type: 'NotFoundError',
      param: 'model',
    }
  }
  let conversations: Conversation[] | VllmError
  if (messages !== undefined) conversations = fromMessages(messages)
  else if (input !== undefined) conversations = fromInput(input)
  else conversations = bad('Field required: give `input` or `messages`', 'input')
  if ('status' in conversations) return conversations

  const tokens: number[] = []
  for (const conversation of conversations) {
    const count = tokensOf(conversation)
    const limit = truncationOf(body as ClassifyBody, server.maxModelLen)
    if (limit === null)
      return bad('truncate_prompt_tokens must be -1 or more', 'truncate_prompt_tokens')
    if (limit !== undefined && count > limit) {
      truncate(conversation, limit, (body as ClassifyBody).truncation_side === 'right')
      tokens.push(limit)
    } else if (count > server.maxModelLen) {
      return bad(
        `This model's maximum context length is ${server.maxModelLen} tokens. However, you requested ${count} tokens in the input. Please reduce the length of the input.`,
        'input_tokens',
      )
    } else tokens.push(count)
  }
  return { conversations, tokens, activate: activation !== false }
}

/** The score of a conversation: a logit, or its sigmoid when the activation is on, as vLLM's one-label pooler does. */
export function scoreOf(conversation: Conversation, kind: ScoreKind, activate: boolean): number {
  let logit = 0.5
  if (kind === 'features') logit = rawScore(conversation.prompt, conversation.response)
  else if (kind === 'hash') logit = hashScore(conversation.response)
  return activate ? 1 / (1 + Math.exp(-logit)) : logit
}

function bad(message: string, param: string | null): VllmError {
  return { status: 400, message, type: 'BadRequestError', param }
}

function fromInput(input: unknown): Conversation[] | VllmError {
  if (typeof input === 'string') return [splitText(input)]
  if (!Array.isArray(input) || input.length === 0) {
    return bad('input: a text or a non-empty list of texts is expected', 'input')
  }
  if (input.every((text) => typeof text === 'string')) return input.map(splitText)
  if (typeof input[0] === 'number' || Array.isArray(input[0])) {
    return bad('This reference server has no tokenizer: send texts, not token ids', 'input')
  }
  return bad('input: every element must be a text', 'input')
}

function fromMessages(messages: unknown): Conversation[] | VllmError {
  if (!Array.isArray(messages) || messages.length === 0) {
    return bad('messages: a non-empty list is expected', 'messages')
  }
  const turns: { role: string; content: string }[] = []
  for (const message of messages) {
    const { role, content } = (message ?? {}) as { role?: unknown; content?: unknown }
    const text = textOf(content)
    if (typeof role !== 'string' || text === null) {
      return bad('messages: every message needs a `role` and a `content` of text', 'messages')
    }
    turns.push({ role, content: text })
  }
  const last = turns.at(-1) as { role: string; content: string }
  const answered = last.role === 'assistant'
  const before = answered ? turns.slice(0, -1) : turns
  return [
    {
      prompt: before.map((turn) => turn.content).join('\n'),
      response: answered ? last.content : '',
    },
  ]
}

/** A message's content: text, or OpenAI's list of parts of which the texts count. */
function textOf(content: unknown): string | null {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return null
  const texts = content.map((part) => (part as { text?: unknown } | null)?.text)
  return texts.every((text) => typeof text === 'string') ? texts.join('') : null
}

function tokensOf(conversation: Conversation): number {
  return Math.ceil((conversation.prompt.length + conversation.response.length) / 4)
}

/** Tokens to cut to; undefined: no cutting asked for; null: not a number vLLM takes. */
function truncationOf(body: ClassifyBody, maxModelLen: number): number | undefined | null {
  const asked = body.truncate_prompt_tokens
  if (asked === undefined || asked === null) return undefined
  if (!Number.isSafeInteger(asked) || (asked as number) < -1) return null
  return asked === -1 ? maxModelLen : Math.min(asked as number, maxModelLen)
}

/** Cuts to a number of tokens: from the front (the default), or from the back. */
function truncate(conversation: Conversation, tokens: number, fromBack: boolean): void {
  const surplus = conversation.prompt.length + conversation.response.length - tokens * 4
  if (fromBack) {
    const kept = Math.max(0, conversation.response.length - surplus)
    const rest = surplus - (conversation.response.length - kept)
    conversation.response = conversation.response.slice(0, kept)
    if (rest > 0) conversation.prompt = conversation.prompt.slice(0, -rest)
  } else {
    const cut = Math.min(surplus, conversation.prompt.length)
    conversation.prompt = conversation.prompt.slice(cut)
    conversation.response = conversation.response.slice(surplus - cut)
  }
}
