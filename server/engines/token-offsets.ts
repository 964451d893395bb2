import type { ScoreInput, TokenOffsets } from './engine.ts'
import { wellFormed } from './sample-text.ts'

/**
 * Aligns the tokens of a scored text with its response. Servers report a token as its entry in the vocabulary, which is
 * not its text, so the entries are decoded and compared with the response byte by byte.
 * @param tokens vocabulary entries, in the order of the scores
 * @param isLast whether the scored text ends with the response, because no template follows it
 * @returns a problem in words if the tokens do not spell the response
 */
export function offsetsOf(
  tokens: readonly string[],
  input: Pick<ScoreInput, 'response'>,
  isLast: boolean,
): TokenOffsets | { problem: string } {
  const response = Buffer.from(wellFormed(input.response))
  for (const decoded of [byteLevelText, sentencePieceText]) {
    const pieces = tokens.map(decoded)
    const at = responseAt(pieces, response, isLast)
    if (at !== null) return offsetsFrom(pieces, response, at)
  }
  return { problem: "the texts of the server's tokens do not contain the response" }
}

/**
 * Returns the start of the response in the concatenated token texts, in bytes, or null if they do not contain the
 * response.
 */
function responseAt(pieces: readonly Buffer[], response: Buffer, isLast: boolean): number | null {
  const text = Buffer.concat(pieces)
  if (isLast) {
    // The tokenizer may have added a special token for the end of the text.
    const last = pieces.at(-1)?.length ?? 0
    const found = [text.length, text.length - last].find((end) =>
      text.subarray(Math.max(0, end - response.length), end).equals(response),
    )
    return found === undefined ? null : found - response.length
  }
  // Tags of the template may follow the response, but no message does. The last occurrence of the response is therefore
  // the right one, unless that occurrence begins within a token of the template, as "end" does in "<|im_end|>".
  if (isBlank(response)) return null
  const starts = new Set<number>()
  let length = 0
  for (const piece of pieces) {
    starts.add(length)
    length += piece.length
  }
  for (let at = text.lastIndexOf(response); at >= 0; at = text.lastIndexOf(response, at - 1)) {
    let from = at
    while (!starts.has(from)) from--
    if (isBlank(text.subarray(from, at))) return at
    if (at === 0) break
  }
  return null
}

function isBlank(bytes: Buffer): boolean {
  return bytes.toString().trim() === ''
}

/**
 * Returns the offsets of the tokens that overlap the response. A character that spans tokens belongs to the token that
 * completes it.
 */
function offsetsFrom(pieces: readonly Buffer[], response: Buffer, at: number): TokenOffsets {
  const charsBefore = completeChars(response)
  const starts: number[] = []
  const ends: number[] = []
  let first = -1
  let offset = -at
  for (const [i, piece] of pieces.entries()) {
    const start = Math.max(0, offset)
    const end = Math.min(response.length, offset + piece.length)
    offset += piece.length
    if (end <= start) continue
    if (first < 0) first = i
    starts.push(charsBefore[start] as number)
    ends.push(charsBefore[end] as number)
  }
  return { first: Math.max(0, first), starts, ends }
}

/** Returns, for each byte offset in the UTF-8 text, the number of code points that end at or before the offset. */
function completeChars(text: Buffer): Uint32Array {
  const complete = new Uint32Array(text.length + 1)
  let chars = 0
  for (let at = 0; at <= text.length; at++) {
    const isWithin = at < text.length && ((text[at] as number) & 0xc0) === 0x80
    if (!isWithin && at > 0) chars++
    complete[at] = chars
  }
  return complete
}

const isPrintable = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173)

/**
 * The byte of each character in the vocabularies of byte-level BPE (GPT-2's `bytes_to_unicode`, also Llama 3 and Qwen):
 * a printable byte stands for itself, and the other bytes, in order, are U+0100 and up.
 */
const BYTE_OF = new Map<string, number>()
for (let byte = 0, others = 0; byte < 256; byte++) {
  BYTE_OF.set(String.fromCodePoint(isPrintable(byte) ? byte : 256 + others++), byte)
}

/** The bytes of a token of byte-level BPE. A token with a character outside of the byte mapping is plain text. */
function byteLevelText(token: string): Buffer {
  const bytes: number[] = []
  for (const char of token) {
    const byte = BYTE_OF.get(char)
    if (byte === undefined) return Buffer.from(token)
    bytes.push(byte)
  }
  return Buffer.from(bytes)
}

/** The text of an entry of SentencePiece (Llama 2, Mistral, Gemma): `▁` is a space, and `<0x0A>` a byte. */
function sentencePieceText(token: string): Buffer {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(token)?.[1]
  return byte === undefined
    ? Buffer.from(token.replaceAll('▁', ' '))
    : Buffer.from([Number.parseInt(byte, 16)])
}
