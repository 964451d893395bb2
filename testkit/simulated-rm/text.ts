import { crc32 } from 'node:zlib'
import { uniformOf } from './draw.ts'

export interface TextPair {
  prompt: string
  response: string
}

/** Start markers of the assistant's turn in the common chat templates. */
const ASSISTANT_TURNS = [
  '<|im_start|>assistant\n',
  '<|start_header_id|>assistant<|end_header_id|>\n\n',
  '<start_of_turn>model\n',
  '<|assistant|>\n',
  '[/INST]',
  '\n\nAssistant:',
]
const TURN_ENDS = /(?:<\|im_end\|>|<\|eot_id\|>|<end_of_turn>|<\|end\|>|<\/s>)\s*$/
const TEMPLATE_MARKS = /<\|[^|<>]{1,40}\|>|<(?:start|end)_of_turn>|\[\/?INST\]/g

/**
 * The id of a text in the server's records: 16 hex digits computed from the prompt, a newline and the response. It is
 * the same for every dialect and form. Half of it is a CRC of the whole text and half is a hash of its last 64 UTF-16
 * units. It is not a SHA-1, because SHA-1 made up 10 % of a request's cost.
 */
export function textId(prompt: string, response: string): string {
  const isWhole = prompt === ''
  const sum = isWhole ? crc32(response) : crc32(response, crc32('\n', crc32(prompt)))
  const tail = isWhole || response.length >= TAIL_UNITS ? response : `${prompt}\n${response}`
  return hex(sum) + hex(fnv1a(tail.slice(-TAIL_UNITS)))
}

const TAIL_UNITS = 64

function fnv1a(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

function hex(bits: number): string {
  return bits.toString(16).padStart(8, '0')
}

/** Largest raw score; its negative is the smallest. */
const MAX_LOGIT = 8

/**
 * The raw score of a text: a logit between −8 and 8, mostly near 0, computed from its id and the seed of the weights.
 * It is rounded to six decimals, about the precision of a 32-bit float.
 */
export function logitOf(id: string, weights: number): number {
  const draw = Number.parseInt(id.slice(0, 8), 16) | 0
  const sum =
    uniformOf(draw, weights, 1) + uniformOf(draw, weights, 2) + uniformOf(draw, weights, 3)
  return Math.round((sum / 1.5 - 1) * MAX_LOGIT * 1e6) / 1e6
}

/** The logit of any token of a text except the last one. */
export function tokenLogitOf(id: string, weights: number, token: number): number {
  const draw = (Number.parseInt(id.slice(0, 8), 16) + token) | 0
  return Math.round((uniformOf(draw, weights, 4) * 2 - 1) * MAX_LOGIT * 1e6) / 1e6
}

/**
 * The logits of all labels of a text. The last label has the text's logit; with two labels, the first has the negative
 * of that logit.
 */
export function labelLogits(logit: number, labels: number): number[] {
  if (labels === 1) return [logit]
  return Array.from({ length: labels }, (_, i) => (i === labels - 1 ? logit : -logit / (i + 1)))
}

export function softmax(logits: readonly number[]): number[] {
  const most = Math.max(...logits)
  const powers = logits.map((logit) => Math.exp(logit - most))
  const sum = powers.reduce((a, b) => a + b, 0)
  return powers.map((power) => power / sum)
}

export function sigmoid(logit: number): number {
  return 1 / (1 + Math.exp(-logit))
}

/** Tokens of a text in this simulation: UTF-16 units divided by `charsPerToken`, rounded up, at least 1. */
export function countTokens(text: string, charsPerToken: number): number {
  return Math.max(1, Math.ceil(text.length / charsPerToken))
}

/**
 * A text's tokens as entries of a byte-level BPE vocabulary. A token begins where the response begins, and tokens may hold
 * parts of characters.
 */
export function tokenTexts({ prompt, response }: TextPair, count: number): string[] {
  const before = Buffer.from(`${prompt}\n`)
  const own = Buffer.from(response)
  const share = own.length / (before.length + own.length)
  const ownTokens = own.length === 0 ? 0 : Math.max(1, Math.min(count, Math.round(count * share)))
  return [...pieces(before, count - ownTokens), ...pieces(own, ownTokens)]
}

function pieces(bytes: Buffer, count: number): string[] {
  const at = (i: number) => Math.floor((i * bytes.length) / count)
  return Array.from({ length: count }, (_, i) =>
    Array.from(bytes.subarray(at(i), at(i + 1)), (byte) => BYTE_CHARS[byte]).join(''),
  )
}

/** The character for each byte: itself if printable, else one from U+0100 on (GPT-2's `bytes_to_unicode`). */
const BYTE_CHARS: string[] = []
for (let byte = 0, others = 0; byte < 256; byte++) {
  const isPrintable = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)
  BYTE_CHARS.push(String.fromCodePoint(isPrintable ? byte : 256 + others++))
}

/**
 * Splits a plain text into prompt and response: at the last assistant turn of a chat template, else at the first line end,
 * where reward routers join the two. A single line is a response without a prompt.
 */
export function pairOf(text: string): TextPair {
  let at = -1
  let length = 0
  for (const turn of ASSISTANT_TURNS) {
    const found = text.lastIndexOf(turn)
    if (found > at) {
      at = found
      length = turn.length
    }
  }
  if (at !== -1) {
    return {
      prompt: text.slice(0, at).replace(TEMPLATE_MARKS, ' ').trim(),
      response: text.slice(at + length).replace(TURN_ENDS, ''),
    }
  }
  const lineEnd = text.indexOf('\n')
  return lineEnd === -1
    ? { prompt: '', response: text }
    : { prompt: text.slice(0, lineEnd), response: text.slice(lineEnd + 1) }
}

/**
 * Splits a conversation into prompt and response: the last turn is the response if it is the assistant's. Returns null for
 * an invalid turn.
 */
export function pairOfMessages(messages: unknown): TextPair | null {
  if (!Array.isArray(messages) || messages.length === 0) return null
  const turns: { role: string; text: string }[] = []
  for (const message of messages) {
    const { role, content } = (message ?? {}) as { role?: unknown; content?: unknown }
    const text = contentText(content)
    if (typeof role !== 'string' || text === null) return null
    turns.push({ role, text })
  }
  const last = turns.at(-1) as { role: string; text: string }
  const answered = last.role === 'assistant'
  return {
    prompt: (answered ? turns.slice(0, -1) : turns).map((turn) => turn.text).join('\n'),
    response: answered ? last.text : '',
  }
}

/** A turn's content: a text, or the joined text parts; null if it is neither. */
function contentText(content: unknown): string | null {
  if (typeof content === 'string') return content
  if (content === null || content === undefined) return ''
  if (!Array.isArray(content)) return null
  const texts = content.map((part) => (part as { text?: unknown } | null)?.text)
  return texts.every((text) => typeof text === 'string') ? texts.join('') : null
}
