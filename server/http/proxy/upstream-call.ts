import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import type { Dispatcher } from 'undici'
import { type CallListener, HttpCall } from '../../router/transport.ts'

/**
 * What is done with an answer:
 * - `pass`: every byte goes on as it comes
 * - `hold`: kept until it is whole, or has grown too large to be kept, and passed on then
 * - `collect`: its beginning is kept, to say what failed; none of it is passed on
 */
export type AnswerMode = 'pass' | 'hold' | 'collect'

/** Answers up to here are held, and looked at for the tokens they tell of, bytes. */
export const SMALL_BYTES = 64 << 10

/** Answers up to here are written together with their head, bytes. */
const ONE_WRITE_BYTES = 8 << 10

/** Who sent a call. */
export interface CallOwner extends CallListener<null> {
  /** An answer began; its status and headers are known. */
  answerBegins(call: UpstreamCall): AnswerMode
  /** Writes the head of the answer to the client. Called once, before its first byte is passed on. */
  writeHead(call: UpstreamCall): void
}

/** One call to a server, whose answer goes to a client as it comes; neither waits in memory for the other. */
export class UpstreamCall extends HttpCall<null> {
  readonly #res: ServerResponse
  readonly #owner: CallOwner
  #controller: Dispatcher.DispatchController | null = null
  #kept: Buffer[] = []
  /** -1: it became too large to be kept. */
  #keptBytes = 0
  #whole = false
  mode: AnswerMode | null = null
  /** Its bytes wait for the client. */
  paused = false
  /** The head went to the client: from here on there is no other answer. */
  passedOn = false
  statusText = ''
  readonly sentAtMs: number
  /** When anything came last. */
  lastAtMs: number
  /** From sending until the answer began, ms. */
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
    // 103 Early Hints and the like: the answer is still to come.
    if (status < 200) return
    super.onResponseStart(controller, status, headers)
    this.#controller = controller
    this.statusText = statusText ?? ''
    this.lastAtMs = performance.now()
    this.firstByteMs = this.lastAtMs - this.sentAtMs
    this.mode = this.#owner.answerBegins(this)
    // What came with the head goes out with it; nothing waits for what is still to come.
    if (this.mode === 'pass') process.nextTick(passOn, this)
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.lastAtMs = performance.now()
    if (this.passedOn) {
      if (this.#keptBytes >= 0) this.#keep(chunk)
      this.#write(controller, chunk)
    } else if (!this.#keep(chunk)) {
      if (this.mode === 'collect') {
        // What failed is told by its beginning: the rest is not waited for.
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

  /** Passes on what has come, unless that is all: then its owner ends it. */
  passOn(): void {
    if (this.passedOn || this.#whole || this.error !== null || this.#res.destroyed) return
    this.#passHead()
    if (this.#kept.length === 0) this.#res.flushHeaders()
    else for (const chunk of this.#kept) this.#write(this.#controller, chunk)
  }

  /** The client took what was written: goes on. */
  resume(): void {
    if (!this.paused) return
    this.paused = false
    this.lastAtMs = performance.now()
    this.#controller?.resume()
  }

  /** The whole answer where it is small, or the beginning of a collected one; null where it was not kept. */
  body(): Buffer | null {
    if (this.#keptBytes < 0) return null
    return this.#kept.length === 1 ? (this.#kept[0] as Buffer) : Buffer.concat(this.#kept)
  }

  /** Ends the client's answer with the end of this one, of which nothing may have been passed on yet. */
  endPassed(): void {
    if (this.passedOn) {
      this.#res.end()
      return
    }
    this.#passHead()
    const body = this.body()
    // As text of one byte a character it goes out with the head in one write; apart they cost 3 µs more.
    if (body !== null && body.length <= ONE_WRITE_BYTES) {
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

  /** False: it would be too much. */
  #keep(chunk: Buffer): boolean {
    if (this.#keptBytes + chunk.length > SMALL_BYTES) {
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
