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
  #mode: AnswerMode | null = null
  #kept: Buffer[] = []
  #keptBytes = 0
  #bytes = 0
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
    this.#mode = this.#owner.answerBegins(this)
    if (this.#mode === 'pass') {
      this.#passHead()
      // A head whose body is still to come must not wait for it; one that came with its body goes out with it.
      process.nextTick(flushHead, this)
    }
  }

  override onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.lastAtMs = performance.now()
    this.#bytes += chunk.length
    if (this.#mode === 'pass') {
      if (this.#keptBytes >= 0) this.#keep(chunk)
      this.#write(controller, chunk)
      return
    }
    if (this.#keptBytes + chunk.length <= SMALL_BYTES) {
      this.#keep(chunk)
      return
    }
    if (this.#mode === 'hold') {
      const held = this.#kept
      this.#passHead()
      this.#mode = 'pass'
      this.#forget()
      for (const part of held) this.#write(controller, part)
      this.#write(controller, chunk)
    } else {
      // What failed is told by its beginning: the rest is not waited for.
      this.abandon()
      this.#owner.onCallEnd(this)
    }
  }

  /** The client took what was written: goes on. */
  resume(): void {
    if (!this.paused) return
    this.paused = false
    this.lastAtMs = performance.now()
    this.#controller?.resume()
  }

  /** The whole answer where it is small, else what was kept of its beginning, or null where nothing was. */
  body(): Buffer | null {
    if (this.#keptBytes < 0) return null
    return this.#kept.length === 1 ? (this.#kept[0] as Buffer) : Buffer.concat(this.#kept)
  }

  /** Ends the client's answer with the end of this one, whose head may not have been written yet. */
  endPassed(): void {
    if (this.passedOn) this.#res.end()
    else {
      const body = this.body()
      this.#passHead()
      this.#res.end(body)
    }
  }

  /** Nothing of it was passed on but its head. */
  get headOnly(): boolean {
    return this.#bytes === 0
  }

  #passHead(): void {
    this.#owner.writeHead(this)
    this.passedOn = true
  }

  #write(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#res.write(chunk)) return
    this.paused = true
    controller.pause()
  }

  #keep(chunk: Buffer): void {
    if (this.#keptBytes + chunk.length > SMALL_BYTES) this.#forget()
    else {
      this.#kept.push(chunk)
      this.#keptBytes += chunk.length
    }
  }

  #forget(): void {
    this.#kept = []
    this.#keptBytes = -1
  }

  /** Writes the head alone, where the answer has brought nothing else so far. */
  flushHead(): void {
    if (this.headOnly && !this.#res.writableEnded) this.#res.flushHeaders()
  }
}

function flushHead(call: UpstreamCall): void {
  call.flushHead()
}
