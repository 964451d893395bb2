import type { Duplex, Readable } from 'node:stream'
import { encodeFrame, FrameReader, MAX_MESSAGE_BYTES } from './host-frames.ts'
import { readHostMessage } from './host-messages.ts'
import type { FromHost, ToHost } from './protocol.ts'

/** Maximum bytes per second that a worker reads from each stream of a process; beyond it, the process waits. */
const MAX_READ_BYTES_PER_SECOND = 32 << 20
/** Reading pauses while a process leaves this many bytes unread or has open router requests of this total size. */
const MAX_PENDING_BYTES = 32 << 20
/** Bytes that are counted for each router request in addition to its size. */
const QUESTION_BYTES = 512

/** Limits a stream to a number of bytes per second by pausing it; the writer then waits. */
export function limitReads(stream: Readable, bytesPerSecond = MAX_READ_BYTES_PER_SECOND): void {
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
 * The worker's end of the channel to one process of user code. It passes on only messages that {@link readHostMessage}
 * accepts. It reads nothing more after the first message that is refused or makes the listener throw.
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
    // An error needs no handling: the process has ended or is about to end.
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

  /** Counts a router request of this size as open until {@link answered} is called. */
  question(bytes: number): void {
    this.#questionBytes += bytes + QUESTION_BYTES
  }

  answered(bytes: number): void {
    this.#questionBytes -= bytes + QUESTION_BYTES
    this.#hold()
  }

  violated(problem: string): void {
    this.#reader.stop()
    this.#onViolation(problem)
  }

  #hold(): void {
    const full =
      this.#stream.writableLength > MAX_PENDING_BYTES || this.#questionBytes > MAX_PENDING_BYTES
    if (full) this.#stream.pause()
    else if (this.#held) this.#stream.resume()
    this.#held = full
  }
}
