const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN_OBJECT = 0x7b
const CLOSE_OBJECT = 0x7d

export interface BodyFacts {
  /** The model; null if it is missing or not a string. */
  model: string | null
  /** True when the answer is requested token by token. */
  stream: boolean
  /** Maximum number of tokens to generate; null if the request does not set it. */
  maxTokens: number | null
}

/**
 * Reads the top-level fields that decide where a body is sent, without parsing the rest. Reading a judge's request of 3
 * KB takes 1.3 µs, and 32 MiB of texts full of quotes take 50 ms. The last of two equal keys counts, as in the servers'
 * parsers. If the body is not JSON, only the fields before the error are read, and the server refuses the body.
 */
export function readBodyFacts(body: Buffer): BodyFacts {
  const facts: BodyFacts = { model: null, stream: false, maxTokens: null }
  let at = skipSpace(body, 0)
  if (body[at] !== OPEN_OBJECT) return facts
  at = skipSpace(body, at + 1)
  while (body[at] === QUOTE) {
    const keyEnd = endOfString(body, at + 1)
    if (keyEnd < 0) return facts
    const key = keyOf(body, at + 1, keyEnd)
    at = skipSpace(body, keyEnd + 1)
    if (body[at] !== COLON) return facts
    at = skipSpace(body, at + 1)
    const end = endOfValue(body, at)
    if (end < 0) return facts
    if (key !== null) take(facts, key, body, at, end)
    at = skipSpace(body, end)
    if (body[at] !== COMMA) return facts
    at = skipSpace(body, at + 1)
  }
  return facts
}

/** The relevant keys by length, so that most other keys are skipped by their length alone. */
const KEYS: Readonly<Record<number, string>> = {
  5: 'model',
  6: 'stream',
  10: 'max_tokens',
  21: 'max_completion_tokens',
}

function keyOf(body: Buffer, start: number, end: number): string | null {
  const candidate = KEYS[end - start]
  if (candidate !== undefined && body.toString('latin1', start, end) === candidate) return candidate
  // A key with escaped letters is rare but valid.
  for (let at = start; at < end; at++) {
    if (body[at] === BACKSLASH) {
      const key = parsed(body, start - 1, end + 1)
      return typeof key === 'string' && Object.values(KEYS).includes(key) ? key : null
    }
  }
  return null
}

function take(facts: BodyFacts, key: string, body: Buffer, start: number, end: number): void {
  const first = body[start]
  const value = first === OPEN_LIST || first === OPEN_OBJECT ? null : parsed(body, start, end)
  if (key === 'model') facts.model = typeof value === 'string' ? value : null
  else if (key === 'stream') facts.stream = value === true
  else if (typeof value === 'number' && value >= 0) facts.maxTokens = value
}

function parsed(body: Buffer, start: number, end: number): unknown {
  // A string without escapes is copied. Parsing it costs three times as much.
  if (body[start] === QUOTE && !body.subarray(start, end).includes(BACKSLASH)) {
    return body.toString('utf8', start + 1, end - 1)
  }
  try {
    return JSON.parse(body.toString('utf8', start, end))
  } catch {
    return undefined
  }
}

function skipSpace(body: Buffer, from: number): number {
  let at = from
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at++
  return at
}

/**
 * Number of bytes of a string that are checked one by one before `indexOf` is called, because a call takes as long as
 * checking about 50 bytes.
 */
const NEAR = 48

/** Returns the index of the closing quote of a string whose first byte is at `from`, or -1 if there is none. */
function endOfString(body: Buffer, from: number): number {
  const near = Math.min(from + NEAR, body.length)
  let at = from
  for (; at < near; at++) {
    const byte = body[at]
    if (byte === QUOTE) return at
    if (byte === BACKSLASH) at++
  }
  for (;;) {
    at = body.indexOf(QUOTE, at)
    if (at < 0) return -1
    let before = at - 1
    while (before >= from && body[before] === BACKSLASH) before--
    if ((at - before) % 2 === 1) return at
    at++
  }
}

/** Returns the index after a value that begins at `from`, or -1 if the value does not end. */
function endOfValue(body: Buffer, from: number): number {
  const first = body[from]
  if (first === QUOTE) {
    const end = endOfString(body, from + 1)
    return end < 0 ? -1 : end + 1
  }
  if (first === OPEN_OBJECT || first === OPEN_LIST) return endOfNested(body, from + 1)
  for (let at = from; at < body.length; at++) {
    const byte = body[at]
    if (byte === COMMA || byte === CLOSE_OBJECT) return at
  }
  return -1
}

function endOfNested(body: Buffer, from: number): number {
  let depth = 1
  for (let at = from; at < body.length; at++) {
    const byte = body[at]
    if (byte === QUOTE) {
      at = endOfString(body, at + 1)
      if (at < 0) return -1
    } else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++
    else if ((byte === CLOSE_OBJECT || byte === CLOSE_LIST) && --depth === 0) return at + 1
  }
  return -1
}
