import { hash } from 'node:crypto'
import { isStorable } from '../contract/storable-text.ts'
import type { SampleInput } from '../contract/trainer.ts'
import type { ChatTurn, SentTurn } from '../contract/turn-text.ts'

/**
 * Encodes a sample's texts for `sample_text` and decodes them. The SQL in `sql/sample-texts.ts` and
 * `sql/monitor-figures.ts` reads the same bits of the column `encoding`. The bits of images are in `stored-images.ts`.
 */

const PROMPT_ESCAPED = 1
const RESPONSE_ESCAPED = 2
export const PROMPT_IS_MESSAGES = 4
export const RESPONSE_IS_MESSAGES = 8

export interface GivenTexts {
  prompt: string | SentTurn[]
  response: string | SentTurn[]
  groundTruth?: unknown
  extraInfo?: Record<string, unknown> | null | undefined
}

export interface EncodedTexts {
  prompt: string
  response: string
  /** JSON. */
  groundTruth: string | null
  /** JSON. */
  extraInfo: string | null
  encoding: number
}

/** A sample's decoded texts. The content of a turn without content is the empty string. */
export interface DecodedTexts {
  prompt: string | ChatTurn[]
  response: string | ChatTurn[]
  groundTruth: unknown
  extraInfo: Record<string, unknown>
}

/** A text for messages and labels: cut to `maxChars` characters, and without characters that Postgres cannot hold. */
export function storableText(text: string, maxChars: number): string {
  const short = text.length > maxChars ? `${text.slice(0, maxChars - 1)}…` : text
  return short.toWellFormed().replaceAll('\u0000', '␀')
}

export function encodeTexts(sample: GivenTexts): EncodedTexts {
  const prompt = encodeText(sample.prompt, PROMPT_ESCAPED, PROMPT_IS_MESSAGES)
  const response = encodeText(sample.response, RESPONSE_ESCAPED, RESPONSE_IS_MESSAGES)
  return {
    prompt: prompt.stored,
    response: response.stored,
    groundTruth: sample.groundTruth === undefined ? null : JSON.stringify(sample.groundTruth),
    extraInfo: sample.extraInfo ? JSON.stringify(sample.extraInfo) : null,
    encoding: prompt.flag | response.flag,
  }
}

/** A text that Postgres cannot hold is stored as a JSON string literal, so every text can be restored byte for byte. */
function encodeText(
  given: string | SentTurn[],
  escaped: number,
  isMessages: number,
): { stored: string; flag: number } {
  if (typeof given !== 'string') return { stored: JSON.stringify(given), flag: isMessages }
  return isStorable(given)
    ? { stored: given, flag: 0 }
    : { stored: JSON.stringify(given), flag: escaped }
}

/**
 * The key that tracks a prompt over steps: the first 16 bytes of the SHA-256 of data source and id, or, without an id,
 * of data source and prompt. Null for an empty prompt without an id.
 */
export function promptKeyOf(
  { dataSource, promptId }: Pick<SampleInput, 'dataSource' | 'promptId'>,
  { prompt, encoding }: Pick<EncodedTexts, 'prompt' | 'encoding'>,
): Buffer | null {
  if (promptId != null) return keyOf(`${dataSource}\nid\n${promptId}`)
  if (prompt === '' || (prompt === '[]' && (encoding & PROMPT_IS_MESSAGES) !== 0)) return null
  const form = encoding & (PROMPT_ESCAPED | PROMPT_IS_MESSAGES)
  return keyOf(`${dataSource}\n${form}\n${prompt}`)
}

function keyOf(text: string): Buffer {
  return hash('sha256', text, 'buffer').subarray(0, 16)
}

/** Decodes a row of `sample_text`; a prompt that was not read is empty. */
export function decodeTexts(row: {
  prompt: string | null
  response: string | null
  ground_truth: string | null
  extra_info: string | null
  encoding: number | null
}): DecodedTexts {
  const encoding = row.encoding ?? 0
  return {
    prompt: decodeText(row.prompt, encoding & PROMPT_IS_MESSAGES, encoding & PROMPT_ESCAPED),
    response: decodeText(
      row.response,
      encoding & RESPONSE_IS_MESSAGES,
      encoding & RESPONSE_ESCAPED,
    ),
    groundTruth: row.ground_truth === null ? null : JSON.parse(row.ground_truth),
    extraInfo:
      row.extra_info === null ? {} : (JSON.parse(row.extra_info) as Record<string, unknown>),
  }
}

const MAX_LINE_CHARS = 200

export function firstLines(start: { prompt: string; response: string; encoding: number }): {
  prompt: string
  response: string
} {
  const { prompt, response, encoding } = start
  return {
    prompt: firstLine(textStart(prompt, encoding & PROMPT_IS_MESSAGES, encoding & PROMPT_ESCAPED)),
    response: firstLine(
      textStart(response, encoding & RESPONSE_IS_MESSAGES, encoding & RESPONSE_ESCAPED),
    ),
  }
}

/** The start of a stored text; for messages, the start of the first message that has content. */
function textStart(stored: string, isMessages: number, isEscaped: number): string {
  if (isMessages !== 0) {
    const content = /"content"\s*:\s*(?:\[[^\]]*?"text"\s*:\s*)?("(?:[^"\\]|\\.)*)/.exec(
      stored,
    )?.[1]
    return decodeStart(content ?? '')
  }
  return isEscaped !== 0 ? decodeStart(stored) : stored
}

/** Decodes the start of a JSON string, which may end within an escape. */
function decodeStart(json: string): string {
  const inside = /^"((?:[^"\\]|\\.)*)/.exec(json)?.[1] ?? ''
  try {
    return JSON.parse(`"${inside.replace(/\\u[0-9a-f]{0,3}$/i, '')}"`) as string
  } catch {
    return ''
  }
}

function firstLine(text: string): string {
  const line = text
    .replace(/^\s*<(?:think|thinking|reasoning)>/, '')
    .replace(/^\s*```\w*[ \t]*\n/, '')
    .trimStart()
    .split('\n', 1)[0] as string
  const isCutInPair = /[\ud800-\udbff]$/.test(line.slice(0, MAX_LINE_CHARS))
  return line.slice(0, isCutInPair ? MAX_LINE_CHARS - 1 : MAX_LINE_CHARS).trimEnd()
}

function decodeText(
  stored: string | null,
  isMessages: number,
  isEscaped: number,
): string | ChatTurn[] {
  if (stored === null) return ''
  if (isMessages !== 0) {
    const turns = JSON.parse(stored) as SentTurn[]
    return turns.map((turn): ChatTurn => ({ ...turn, content: turn.content ?? '' }))
  }
  return isEscaped !== 0 ? (JSON.parse(stored) as string) : stored
}

/** A sample's texts as JSON, exactly as sent. Absent fields are null; removed texts are the JSON text `null`. */
export interface TextsAsJson {
  prompt: string
  response: string
  groundTruth: string | null
  extraInfo: string | null
}

/** Converts a row of `sample_text` without parsing stored JSON. Columns of a missing row are null. */
export function textsAsJson(row: {
  prompt: string | null
  response: string | null
  ground_truth: string | null
  extra_info: string | null
  encoding: number | null
}): TextsAsJson {
  const encoding = row.encoding ?? 0
  const { prompt, response } = row
  const promptIsJson = (encoding & (PROMPT_IS_MESSAGES | PROMPT_ESCAPED)) !== 0
  const responseIsJson = (encoding & (RESPONSE_IS_MESSAGES | RESPONSE_ESCAPED)) !== 0
  return {
    prompt: promptIsJson && prompt !== null ? prompt : JSON.stringify(prompt),
    response: responseIsJson && response !== null ? response : JSON.stringify(response),
    groundTruth: row.ground_truth,
    extraInfo: row.extra_info,
  }
}
