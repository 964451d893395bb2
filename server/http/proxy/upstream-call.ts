import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Dispatcher } from 'undici'
import { type CallListener, HttpCall } from '../../router/transport.ts'

/**
 * - `pass`: every byte is passed on as it arrives
 * - `hold`: the answer is kept until it is complete or too large, then passed on
 * - `collect`: at most the first 64 KiB are kept for the error message; nothing is passed on
 */
export type AnswerMode = 'pass' | 'hold' | 'collect'

/** Maximum size in bytes of an answer that is kept, so that its token count can be read. */
export const MAX_SMALL_BYTES = 64 << 10

const MAX_ONE_WRITE_BYTES = 8 << 10

export interface CallOwner extends CallListener<null> {
  answerBegins(call: UpstreamCall): AnswerMode
  writeHead(call: UpstreamCall): void
}

/** A call to a server whose answer is streamed to a client with backpressure. */
export class UpstreamCall extends HttpCall<null> {
  readonly #res: ServerResponse
  readonly #owner: CallOwner
  #controller: Dispatcher.DispatchController | null = null
  #kept: Buffer[] = []
  /** Bytes kept so far; -1 if the answer became too large to keep. */
  #keptBytes = 0
  #whole = false
  mode: AnswerMode | null = null
  paused = false
  /** True once the head was sent to the client; no other answer is possible then. */
  passedOn = false
  statusText = ''
  readonly sentAtMs: number
  lastAtMs: number
  firstByteMs = 0

  constructor(res: ServerResponse, owner: CallOwner, nowMs: number) {
    super(null, owner)
    this.#res = res
    this.#owner = owner
    this.sentAtMs = nowMs
    this.lastAtMs = nowMs
  }

  override onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    // This is an interim answer, such as 103 Early Hints. The final answer follows.
    if (status < 200) return
    super.onResponseStart(controller, status, headers)
    this.#controller = controller
    this.statusText = statusText ?? ''
    this.lastAtMs = performance.now()
    this.firstByteMs = this.lastAtMs - this.sentAtMs
    this.mode = this.#owner.answerBegins(this)
    // The head is passed on in the next tick, together with the data that arrived with it.
    if (this.mode === 'pass') process.nextTick(passOn, this)
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.lastAtMs = performance.now()
    if (this.passedOn) {
      if (this.#keptBytes >= 0) this.#keep(chunk)
      this.#write(controller, chunk)
    } else if (!this.#keep(chunk)) {
      if (this.mode === 'collect') {
        this.abandon()
        this.#owner.onCallEnd(this)
      } else {
        this.passOn()
        this.#forget()
        this.#write(controller, chunk)
      }
    }
  }

  override onResponseEnd(): void {
    this.#whole = true
    super.onResponseEnd()
  }

  /**
   * Passes on the data received so far. Does nothing if the answer is complete, because the owner then sends the answer
   * with {@link endPassed}.
   */
  passOn(): void {
    if (this.passedOn || this.#whole || this.error !== null || this.#res.destroyed) return
    this.#passHead()
    if (this.#kept.length === 0) this.#res.flushHeaders()
    else for (const chunk of this.#kept) this.#write(this.#controller, chunk)
  }

  resume(): void {
    if (!this.paused) return
    this.paused = false
    this.lastAtMs = performance.now()
    this.#controller?.resume()
  }

  /** Returns a small answer, or the kept chunks in mode `collect`. Returns null if the answer was not kept. */
  body(): Buffer | null {
    if (this.#keptBytes < 0) return null
    return this.#kept.length === 1 ? (this.#kept[0] as Buffer) : Buffer.concat(this.#kept)
  }

  endPassed(): void {
    if (this.passedOn) {
      this.#res.end()
      return
    }
    this.#passHead()
    const body = this.body()
    // Node writes a latin1 string together with the head, which saves 3 µs.
    if (body !== null && body.length <= MAX_ONE_WRITE_BYTES) {
      this.#res.end(body.toString('latin1'), 'latin1')
    } else this.#res.end(body)
  }

  #passHead(): void {
    this.#owner.writeHead(this)
    this.passedOn = true
  }

  #write(controller: Dispatcher.DispatchController | null, chunk: Buffer): void {
    if (this.#res.write(chunk)) return
    this.paused = true
    controller?.pause()
  }

  #keep(chunk: Buffer): boolean {
    if (this.#keptBytes + chunk.length > MAX_SMALL_BYTES) {
      if (this.passedOn) this.#forget()
      return false
    }
    this.#kept.push(chunk)
    this.#keptBytes += chunk.length
    return true
  }

  #forget(): void {
    this.#kept = []
    this.#keptBytes = -1
  }
}

function passOn(call: UpstreamCall): void {
  call.passOn()
}
