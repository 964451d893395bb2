/**
 * Frames of messages between a worker and a process that runs user code: four bytes with the length of the body, then
 * the body as JSON. Node's IPC channel is not used, because a body that is not a structured clone, or one of Node's
 * internal messages (`{cmd: 'NODE_HANDLE_ACK'}`), throws in the receiver before any listener sees it.
 */

/** Maximum size of a message that a worker accepts from a process that runs user code. */
export const MAX_MESSAGE_BYTES = 16 << 20
/** Maximum depth of a message, because deep JSON overflows the stack of Postgres and of JSON.stringify. */
const MAX_DEPTH = 100
/** Maximum number of values in a message. A value of two characters takes about 60 bytes of heap once it is parsed. */
const MAX_VALUES = 500_000
const HEADER_BYTES = 4
/** A buffer that grew beyond this size for one message is replaced by a smaller one. */
const KEPT_BYTES = 1 << 20

/** Encodes a message with its header. Throws an Error for a message that JSON cannot represent. */
export function encodeFrame(message: object): Buffer {
  const text = JSON.stringify(message)
  const bodyBytes = Buffer.byteLength(text)
  const frame = Buffer.allocUnsafe(HEADER_BYTES + bodyBytes)
  frame.writeUInt32BE(bodyBytes, 0)
  frame.write(text, HEADER_BYTES)
  return frame
}

/** Encodes a message within the limits that a worker enforces. Throws an Error that names the exceeded limit. */
export function encodeLimitedFrame(message: object): Buffer {
  const frame = encodeFrame(message)
  const problem = problemOfBody(frame.subarray(HEADER_BYTES))
  if (problem !== null) throw new Error(problem)
  return frame
}

/** Returns why a body cannot be parsed safely, or null if it can. */
export function problemOfBody(body: Buffer): string | null {
  if (body.length > MAX_MESSAGE_BYTES) return tooLarge(body.length)
  let depth = 0
  let values = 1
  for (let at = 0; at < body.length; at++) {
    switch (body[at]) {
      case 0x22: // "
        at = endOfString(body, at)
        break
      case 0x5b: // [
      case 0x7b: // {
        values++
        if (++depth > MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} levels deep`
        break
      case 0x5d: // ]
      case 0x7d: // }
        depth--
        break
      case 0x2c: // ,
        values++
        break
    }
  }
  return values > MAX_VALUES ? `it holds more than ${MAX_VALUES} values` : null
}

function endOfString(body: Buffer, start: number): number {
  let end = start
  for (;;) {
    end = body.indexOf(0x22, end + 1)
    if (end < 0) return body.length
    let backslashes = 0
    while (body[end - 1 - backslashes] === 0x5c) backslashes++
    if (backslashes % 2 === 0) return end
  }
}

function tooLarge(bytes: number): string {
  return `it is ${bytes} bytes long, over ${MAX_MESSAGE_BYTES}`
}

/** Assembles frames from a stream's chunks. Buffers at most one unfinished frame of `maxBytes`. */
export class FrameReader {
  readonly #maxBytes: number
  readonly #onBody: (body: Buffer) => void
  readonly #onTooLarge: (problem: string) => void
  #buffer = Buffer.alloc(0)
  #length = 0
  #stopped = false

  /** `onBody` receives a view that is valid only until `onBody` returns. After `onTooLarge` nothing more is read. */
  constructor(
    maxBytes: number,
    onBody: (body: Buffer) => void,
    onTooLarge: (problem: string) => void,
  ) {
    this.#maxBytes = maxBytes
    this.#onBody = onBody
    this.#onTooLarge = onTooLarge
  }

  push(chunk: Buffer): void {
    if (this.#stopped) return
    this.#append(chunk)
    let at = 0
    while (this.#length - at >= HEADER_BYTES) {
      const bodyBytes = this.#buffer.readUInt32BE(at)
      if (bodyBytes > this.#maxBytes) {
        this.stop()
        this.#onTooLarge(tooLarge(bodyBytes))
        return
      }
      const bodyAt = at + HEADER_BYTES
      if (this.#length - bodyAt < bodyBytes) break
      at = bodyAt + bodyBytes
      this.#onBody(this.#buffer.subarray(bodyAt, at))
      if (this.#stopped) return
    }
    this.#buffer.copyWithin(0, at, this.#length)
    this.#length -= at
    if (this.#buffer.length > KEPT_BYTES && this.#length < KEPT_BYTES / 2) {
      this.#buffer = Buffer.from(this.#buffer.subarray(0, this.#length))
    }
  }

  stop(): void {
    this.#stopped = true
    this.#buffer = Buffer.alloc(0)
    this.#length = 0
  }

  #append(chunk: Buffer): void {
    const needed = this.#length + chunk.length
    if (needed > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.#buffer.length))
      this.#buffer.copy(grown, 0, 0, this.#length)
      this.#buffer = grown
    }
    chunk.copy(this.#buffer, this.#length)
    this.#length = needed
  }
}
