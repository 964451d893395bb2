import type { Duplex, Readable } from 'node:stream'
import { encodeFrame, FrameReader, MAX_MESSAGE_BYTES } from './host-frames.ts'
import { readHostMessage } from './host-messages.ts'
import type { FromHost, ToHost } from './protocol.ts'

/** Bytes a second that a worker reads from one process, messages and printed lines each; the process waits for the rest. */
const READ_BYTES_PER_SECOND = 32 << 20
/** While a process leaves so much unread, or has so much of its questions open, nothing is read from it. */
const MAX_PENDING_BYTES = 32 << 20
/** What a question costs beside its bytes. */
const QUESTION_BYTES = 512

/** Keeps a stream to a number of bytes a second by pausing it: what is written into it then has to wait. */
export function limitReads(stream: Readable, bytesPerSecond = READ_BYTES_PER_SECOND): void {
  let secondAtMs = performance.now()
  let bytes = 0
  stream.on('data', (chunk: Buffer | string) => {
    const now = performance.now()
    if (now - secondAtMs > 1_000) {
      secondAtMs = now
      bytes = 0
    }
    bytes += chunk.length
    if (bytes < bytesPerSecond || stream.isPaused()) return
    stream.pause()
    setTimeout(() => stream.resume(), Math.max(1, secondAtMs + 1_000 - now)).unref()
  })
}

/**
 * The worker's end of the channel to one process of user code. Gives only messages that {@link readHostMessage} accepts;
 * the first one that it does not, or that the listener throws on, is a violation, after which nothing more is read.
 */
export class HostChannel {
  readonly #stream: Duplex
  readonly #reader: FrameReader
  readonly #onViolation: (problem: string) => void
  #questionBytes = 0
  #held = false

  constructor(
    stream: Duplex,
    onMessage: (message: FromHost, bytes: number) => void,
    onViolation: (problem: string) => void,
  ) {
    this.#stream = stream
    this.#onViolation = onViolation
    this.#reader = new FrameReader(
      MAX_MESSAGE_BYTES,
      (body) => {
        const read = readHostMessage(body)
        if (!read.ok) return this.violated(read.problem)
        try {
          onMessage(read.message, body.length)
        } catch (error) {
          this.violated(`it could not be handled: ${(error as Error).message}`)
        }
      },
      (problem) => this.violated(problem),
    )
    // The process is gone, or nearly.
    stream.on('error', () => {})
    stream.on('data', (chunk: Buffer) => {
      this.#reader.push(chunk)
      this.#hold()
    })
    stream.on('drain', () => this.#hold())
    limitReads(stream)
  }

  send(message: ToHost): void {
    if (this.#stream.writable) this.#stream.write(encodeFrame(message))
  }

  /** A question of so many bytes is open until {@link answered}. */
  asked(bytes: number): void {
    this.#questionBytes += bytes + QUESTION_BYTES
  }

  answered(bytes: number): void {
    this.#questionBytes -= bytes + QUESTION_BYTES
    this.#hold()
  }

  /** Reads nothing more and tells the listener why. */
  violated(problem: string): void {
    this.#reader.stop()
    this.#onViolation(problem)
  }

  /** Reads on only while the process takes its answers. */
  #hold(): void {
    const full =
      this.#stream.writableLength > MAX_PENDING_BYTES || this.#questionBytes > MAX_PENDING_BYTES
    if (full) this.#stream.pause()
    else if (this.#held) this.#stream.resume()
    this.#held = full
  }
}
