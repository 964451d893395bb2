import { Worker } from 'node:worker_threads'
import type { ScopedCaller } from '../../admin/run-scope.ts'
import type { ErrorReason } from '../../contract/error-reasons.ts'
import type { LocalSandbox } from '../../contract/sandbox.ts'
import type { AppendResult, SubmitResult } from '../../contract/trainer.ts'
import { RewardOpsError, shuttingDown } from '../../errors.ts'
import type { Logger } from '../../log.ts'
import { isOutage } from '../../store/database.ts'
import type { ImagePolicy } from '../../store/stored-images.ts'
import { activeTrace } from '../../trace-context.ts'
import type { IngestKind } from './ingest.ts'
import type { FromThread, IngestOptions, ToThread } from './ingest-thread.ts'

/**
 * Maximum number of bodies received at the same time. Further bodies are refused as `busy`. Each body may hold up to
 * 256 MiB of encoded texts.
 */
const MAX_BODIES = 2
/** Reading from a connection pauses while the thread has more than this many unprocessed bytes of its body. */
const MAX_BEHIND_BYTES = 16 << 20
const BLOCK_BYTES = 1 << 20
/** The thread and its heap are released after this long without a body. */
const IDLE_MS = 20_000

interface Body {
  thread: Worker
  behindBytes: number
  resume: (() => void) | null
  settle: (message: FromThread | Error) => void
}

export class IngestClient {
  readonly #options: IngestOptions
  readonly #images: () => ImagePolicy
  readonly #sandbox: () => Promise<LocalSandbox>
  readonly #log: Logger
  readonly #bodies = new Map<number, Body>()
  #thread: Worker | null = null
  #idle: NodeJS.Timeout | undefined
  #nextId = 1

  constructor(
    options: IngestOptions,
    images: () => ImagePolicy,
    sandbox: () => Promise<LocalSandbox>,
    log: Logger,
  ) {
    this.#options = options
    this.#images = images
    this.#sandbox = sandbox
    this.#log = log
  }

  /**
   * Sends a body chunk by chunk and resolves when its batch is committed. Throws RewardOpsError (`busy` when
   * two bodies are already in progress, `forbidden_scope` for a run outside the caller's run prefix).
   */
  async take(
    kind: IngestKind,
    chunks: AsyncIterable<Buffer>,
    caller: ScopedCaller,
  ): Promise<SubmitResult | AppendResult> {
    if (this.#bodies.size >= MAX_BODIES) {
      throw new RewardOpsError('busy', `${MAX_BODIES} large bodies are being received already.`, {
        retryAfterMs: 1_000,
      })
    }
    const thread = this.#ensureThread()
    const id = this.#nextId++
    const ended = Promise.withResolvers<FromThread | Error>()
    const body: Body = { thread, behindBytes: 0, resume: null, settle: ended.resolve }
    this.#bodies.set(id, body)
    let settled = false
    void ended.promise.then(() => {
      settled = true
      body.resume?.()
    })
    const post = (message: ToThread, transfer: ArrayBuffer[] = []) =>
      thread.postMessage(message, transfer)
    try {
      const trace = activeTrace.getStore()?.trace ?? null
      post({ type: 'begin', id, kind, caller, images: this.#images(), trace })
      let block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
      let filled = 0
      const send = (bytes: Buffer) => {
        body.behindBytes += bytes.byteLength
        post({ type: 'chunk', id, bytes }, [bytes.buffer as ArrayBuffer])
      }
      for await (const chunk of chunks) {
        if (settled) break
        for (let at = 0; at < chunk.length; ) {
          const n = chunk.copy(block, filled, at)
          at += n
          filled += n
          if (filled === BLOCK_BYTES) {
            send(block)
            block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
            filled = 0
          }
        }
        while (!settled && body.behindBytes > MAX_BEHIND_BYTES) {
          await new Promise<void>((resolve) => {
            body.resume = resolve
          })
          body.resume = null
        }
      }
      if (!settled) {
        if (filled > 0) send(block.subarray(0, filled))
        post({ type: 'end', id })
      }
      return outcome(await ended.promise, this.#log)
    } finally {
      // The thread keeps a body until it gets `end` or `abort`. If it got `end` above, it ignores this `abort`.
      post({ type: 'abort', id })
      this.#bodies.delete(id)
      if (this.#bodies.size === 0) {
        this.#idle = setTimeout(() => this.#letGo(), IDLE_MS).unref()
      }
    }
  }

  /** Rejects the bodies in progress with `shutting_down`, so that callers retry, and ends the thread. */
  async close(): Promise<void> {
    clearTimeout(this.#idle)
    for (const body of this.#bodies.values()) body.settle(shuttingDown())
    await this.#thread?.terminate()
    this.#thread = null
  }

  #letGo(): void {
    void this.#thread?.terminate()
    this.#thread = null
  }

  #ensureThread(): Worker {
    clearTimeout(this.#idle)
    if (this.#thread) return this.#thread
    const thread = new Worker(new URL('./ingest-thread.ts', import.meta.url), {
      workerData: this.#options,
      resourceLimits: { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 32 },
    })
    const lost = (error: Error) => {
      if (this.#thread === thread) this.#thread = null
      // The next thread may already have bodies when this one ends.
      for (const body of this.#bodies.values()) if (body.thread === thread) body.settle(error)
    }
    thread.on('message', (message: FromThread) => {
      const body = this.#bodies.get(message.id)
      if (!body) return
      if (message.type === 'taken') {
        body.behindBytes -= message.bytes
        if (body.behindBytes <= MAX_BEHIND_BYTES) body.resume?.()
      } else if (message.type === 'sandbox') {
        const { id } = message
        void this.#sandbox().then((sandbox) =>
          thread.postMessage({ type: 'sandbox', id, sandbox } satisfies ToThread),
        )
      } else {
        body.settle(message)
      }
    })
    thread.on('error', lost)
    thread.on('exit', () => lost(new Error('the ingest thread ended')))
    thread.unref()
    this.#thread = thread
    return thread
  }
}

function outcome(message: FromThread | Error, log: Logger): SubmitResult | AppendResult {
  if (message instanceof Error) throw message
  if (message.type === 'done') return message.result as SubmitResult
  if (message.type === 'refused') {
    throw new RewardOpsError(message.reason as ErrorReason, message.message, {
      hint: message.hint,
      ...(message.retryAfterMs === undefined ? {} : { retryAfterMs: message.retryAfterMs }),
    })
  }
  if (message.type === 'failed') {
    const error = Object.assign(new Error(message.message), { code: message.code })
    if (isOutage(error)) throw error
    log.error({ err: message.message }, 'ingest failed')
  }
  throw new Error('ingest failed')
}
