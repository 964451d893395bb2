import { isUtf8 } from 'node:buffer'
import { RewardOpsError } from '../../errors.ts'

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d
/** 2^53 has 16 digits; integers with fewer digits are never rounded. */
const LONG_INTEGER_DIGITS = 16
const SAMPLES_KEY = /[{,]\s*"samples"\s*:\s*$/

function malformed(what: string): RewardOpsError {
  return new RewardOpsError('malformed_json', `The body is not valid JSON: ${what}.`)
}

function isSpace(c: number): boolean {
  return c === 0x20 || c === 0x0a || c === 0x0d || c === 0x09
}

/**
 * Splits a submit body, chunk by chunk, into the elements of its top-level `samples` array and the rest (the envelope).
 * Strings are skipped with `indexOf`, so the splitter reaches about 1 GB/s; a general streaming parser reaches 30 MB/s.
 *
 * envelope ──"samples": [──▶ element* ──]──▶ envelope
 *
 * It does not check the validity of elements and envelope.
 */
export class BodySplitter {
  readonly #onElement: (json: Buffer, longInteger: boolean) => void
  /** Number of consecutive digits directly before the current byte, outside strings. */
  #digits = 0
  /** True if the current element has 16 consecutive digits. A JavaScript number can round such an integer. */
  #longInteger = false
  #longInEnvelope = false
  #inSamples = false
  #seenSamples = false
  #inString = false
  #escape = false
  #depth = 0
  /** State inside the array: an element is open, was just closed, or must follow (after a comma). */
  #element: 'none' | 'open' | 'closed' | 'due' = 'none'
  #elementParts: Buffer[] = []
  #envelopeParts: Buffer[] = []
  #elements = 0

  constructor(onElement: (json: Buffer, longInteger: boolean) => void) {
    this.#onElement = onElement
  }

  /** Processes the next bytes. Throws `malformed_json`. */
  push(chunk: Buffer): void {
    let mark = 0
    let nextQuote = -2
    let nextBackslash = -2
    const end = chunk.length
    let i = 0
    while (i < end) {
      if (this.#inString) {
        if (this.#escape) {
          this.#escape = false
          i++
          continue
        }
        if (nextQuote < i) {
          nextQuote = chunk.indexOf(QUOTE, i)
          if (nextQuote === -1) nextQuote = end
        }
        if (nextBackslash < i) {
          nextBackslash = chunk.indexOf(BACKSLASH, i)
          if (nextBackslash === -1) nextBackslash = end
        }
        if (nextBackslash < nextQuote) {
          i = nextBackslash + 1
          this.#escape = true
        } else if (nextQuote < end) {
          i = nextQuote + 1
          this.#inString = false
        } else {
          i = end
        }
        continue
      }
      const c = chunk[i] as number
      if (c >= 0x30 && c <= 0x39) {
        if (++this.#digits === LONG_INTEGER_DIGITS) {
          if (this.#inSamples) this.#longInteger = true
          else this.#longInEnvelope = true
        }
      } else this.#digits = 0
      if (!this.#inSamples) {
        if (c === QUOTE) this.#inString = true
        else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
          if (c === OPEN_BRACKET && this.#depth === 1) {
            this.#envelopeParts.push(Buffer.from(chunk.subarray(mark, i)))
            mark = i
            if (this.#endsWithSamplesKey()) {
              if (this.#seenSamples) throw malformed('"samples" occurs twice')
              this.#inSamples = this.#seenSamples = true
              this.#element = 'none'
              i++
              mark = i
              continue
            }
          }
          this.#depth++
        } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) this.#depth--
        i++
        continue
      }
      // In the samples array, outside strings. #depth counts the top-level object as 1, but not the array.
      if (this.#element === 'open') {
        if (c === QUOTE) this.#inString = true
        else if (c === OPEN_BRACE || c === OPEN_BRACKET) this.#depth++
        else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
          if (this.#depth === 1) {
            // If the last element is a number, literal or string, it ends with the array. Objects and arrays end below,
            // at their own closing bracket.
            this.#closeElement(chunk.subarray(mark, i))
            mark = i
            continue
          }
          this.#depth--
          if (this.#depth === 1) {
            this.#closeElement(chunk.subarray(mark, i + 1))
            mark = i + 1
          }
        } else if (c === COMMA && this.#depth === 1) {
          this.#closeElement(chunk.subarray(mark, i))
          mark = i
          continue
        }
        i++
      } else if (isSpace(c)) {
        i++
      } else if (c === CLOSE_BRACKET) {
        if (this.#element === 'due') throw malformed('a comma before the end of "samples"')
        this.#inSamples = false
        this.#envelopeParts.push(Buffer.from('[]'))
        i++
        mark = i
      } else if (c === COMMA) {
        if (this.#element !== 'closed') throw malformed('an extra comma in "samples"')
        this.#element = 'due'
        i++
      } else {
        if (this.#element === 'closed') {
          throw malformed(`a comma is missing after samples[${this.#elements - 1}]`)
        }
        this.#element = 'open'
        mark = i
        if (c === QUOTE) this.#inString = true
        else if (c === OPEN_BRACE || c === OPEN_BRACKET) this.#depth++
        i++
      }
    }
    if (this.#inSamples) {
      if (this.#element === 'open' && mark < end) this.#elementParts.push(chunk.subarray(mark))
    } else if (mark < end) {
      // The bytes are copied, because a slice would keep the whole chunk in memory until the end.
      this.#envelopeParts.push(Buffer.from(chunk.subarray(mark)))
    }
  }

  /**
   * Returns the envelope with an empty `samples` array. Throws `malformed_json` if the envelope is invalid or the body
   * ended early, and `integer_out_of_range`.
   */
  finish(): unknown {
    if (this.#inSamples) throw malformed('it ends inside "samples"')
    return parseJson(Buffer.concat(this.#envelopeParts), 'the body', this.#longInEnvelope)
  }

  #closeElement(last: Buffer): void {
    const json =
      this.#elementParts.length === 0 ? last : Buffer.concat([...this.#elementParts, last])
    this.#elementParts = []
    this.#element = 'closed'
    this.#elements++
    const long = this.#longInteger
    this.#longInteger = false
    this.#onElement(json, long)
  }

  #endsWithSamplesKey(): boolean {
    let tail = ''
    for (let k = this.#envelopeParts.length - 1; k >= 0 && tail.length < 64; k--) {
      tail = (this.#envelopeParts[k] as Buffer).subarray(-256).toString('latin1') + tail
    }
    return SAMPLES_KEY.test(tail)
  }
}

/**
 * Parses JSON bytes. Throws `malformed_json`, `integer_out_of_range` for an integer that would be rounded, and
 * `invalid_input` for a nesting of more than 200 levels.
 * @param longInteger whether 16 consecutive digits occur outside strings; otherwise no integer can be rounded
 */
export function parseJson(bytes: Buffer, where: string, longInteger: boolean): unknown {
  const text = utf8(bytes, where)
  const value = parse(text, where)
  if (longInteger) refuseRoundedIntegers(text, where)
  return value
}

/**
 * Decodes bytes as UTF-8. Throws `malformed_json` for invalid UTF-8, which a lenient decoder would change
 * silently.
 */
export function utf8(bytes: Buffer, where: string): string {
  if (!isUtf8(bytes)) throw malformed(`${where} is not UTF-8`)
  return bytes.toString('utf8')
}

/** Like {@link parseJson}, for text that is already decoded. */
export function parseJsonText(text: string, where: string): unknown {
  const value = parse(text, where)
  if (/\d{16}/.test(text)) refuseRoundedIntegers(text, where)
  return value
}

function parse(text: string, where: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw malformed(`${where}: ${(error as Error).message}`)
  }
  if (isDeeper(value, MAX_DEPTH)) {
    throw new RewardOpsError(
      'invalid_input',
      `${where}: is nested more than ${MAX_DEPTH} levels deep`,
    )
  }
  return value
}

/** Called only for JSON with 16 consecutive digits, because the reviver is five times slower than a plain parse. */
function refuseRoundedIntegers(text: string, where: string): void {
  const reviver = (key: string, value: unknown, context: { source?: string }): unknown => {
    if (typeof value === 'number' && !Number.isSafeInteger(value)) {
      if (context.source !== undefined && /^-?\d+$/.test(context.source)) {
        throw new RewardOpsError(
          'integer_out_of_range',
          `${where}: the integer ${context.source} at "${key}" is outside ±(2^53 − 1) and would be rounded. Send it as a string.`,
        )
      }
    }
    return value
  }
  JSON.parse(text, reviver as (key: string, value: unknown) => unknown)
}

/** Maximum nesting of arrays and objects. Code that walks a value recursively fails at a few thousand levels. */
const MAX_DEPTH = 200

/**
 * Whether arrays and objects are nested more than `levels` deep. Recursion takes half as long as collecting the values
 * level by level.
 */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  if (Array.isArray(value)) {
    for (const child of value) if (isDeeper(child, levels - 1)) return true
    return false
  }
  for (const name in value) {
    if (isDeeper((value as Record<string, unknown>)[name], levels - 1)) return true
  }
  return false
}
