import { parentPort, workerData } from 'node:worker_threads'
import type { ScopedCaller } from '../../admin/run-scope.ts'
import type { LocalSandbox } from '../../contract/sandbox.ts'
import { isRewardOpsError } from '../../errors.ts'
import { createLogger } from '../../log.ts'
import {
  AcceptedFunctions,
  type AcceptedFunctionsOptions,
} from '../../rewards/functions/accepted-functions.ts'
import { setEgressPolicy } from '../../router/server-admission.ts'
import { SERVER_POOLS } from '../../store/connection-budget.ts'
import { Database } from '../../store/database.ts'
import { JobQueue } from '../../store/job-queue.ts'
import type { ImagePolicy } from '../../store/stored-images.ts'
import type { TraceContext } from '../../trace-context.ts'
import type { AcceptContext } from './accept-batch.ts'
import { Ingest, type IngestKind } from './ingest.ts'

export interface IngestOptions {
  databaseUrl: string
  functions: AcceptedFunctionsOptions
  /** Addresses that the service may call, as in REWARDOPS_EGRESS_ALLOW. */
  egressAllow: string[]
  sandboxes: Record<string, string>
  logLevel: string
}

/** Messages from the server to the thread; `id` identifies one body. */
export type ToThread =
  | {
      type: 'begin'
      id: number
      kind: IngestKind
      caller: ScopedCaller
      images: ImagePolicy
      /** Null if the body is not traced. */
      trace: TraceContext | null
    }
  | { type: 'chunk'; id: number; bytes: Uint8Array }
  | { type: 'end'; id: number }
  | { type: 'abort'; id: number }
  | { type: 'sandbox'; id: number; sandbox: LocalSandbox }

/** Messages from the thread: processed bytes (for back-pressure), sandbox requests, and the end of a body. */
export type FromThread =
  | { type: 'sandbox'; id: number }
  | { type: 'taken'; id: number; bytes: number }
  | { type: 'done'; id: number; result: unknown }
  | {
      type: 'refused'
      id: number
      reason: string
      message: string
      hint: string
      retryAfterMs: number | undefined
    }
  | { type: 'failed'; id: number; message: string; code: string | undefined }

const port = parentPort!
const { databaseUrl, functions, egressAllow, sandboxes, logLevel } = workerData as IngestOptions
setEgressPolicy(egressAllow)
const log = createLogger(logLevel, 'ingest')
const db = new Database(databaseUrl, log, SERVER_POOLS.ingest)
const queue = new JobQueue(db, log, { supervise: false })
let starting: Promise<void> | null = null
/** Starts the queue. After a failed start, for example during an outage, the next body starts it again. */
function startQueue(): Promise<void> {
  starting ??= queue.start().catch((error: Error) => {
    starting = null
    throw error
  })
  return starting
}
const context: Omit<AcceptContext, 'images' | 'sandboxes'> = {
  db,
  queue,
  functions: new AcceptedFunctions(functions),
}

interface Body {
  ingest: Ingest
  last: Promise<void>
  ended: boolean
}

const bodies = new Map<number, Body>()
const asking = new Map<number, (sandbox: LocalSandbox) => void>()

function send(message: FromThread): void {
  port.postMessage(message)
}

function tellError(id: number, error: unknown): void {
  if (isRewardOpsError(error)) {
    const { reason, message, hint, retryAfterMs } = error
    send({ type: 'refused', id, reason, message, hint, retryAfterMs })
  } else {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
    send({ type: 'failed', id, message, code: (error as { code?: string } | null)?.code })
  }
}

async function deal(body: Body, message: ToThread): Promise<void> {
  const { id } = message
  const bytes = message.type === 'chunk' ? message.bytes : null
  try {
    if (body.ended) return
    await startQueue()
    if (message.type === 'chunk') {
      const { buffer, byteOffset, byteLength } = message.bytes
      await body.ingest.push(Buffer.from(buffer, byteOffset, byteLength))
    } else if (message.type === 'end') {
      const result = await body.ingest.finish()
      body.ended = true
      send({ type: 'done', id, result })
    } else if (message.type === 'abort') {
      body.ended = true
      await body.ingest.drop()
    }
  } catch (error) {
    body.ended = true
    tellError(id, error)
    await body.ingest.drop().catch(() => {})
  } finally {
    if (bytes) send({ type: 'taken', id, bytes: bytes.byteLength })
    if (message.type === 'end' || message.type === 'abort') bodies.delete(id)
  }
}

port.on('message', (message: ToThread) => {
  const { id } = message
  if (message.type === 'sandbox') {
    asking.get(id)?.(message.sandbox)
    asking.delete(id)
    return
  }
  if (message.type === 'begin') {
    const { kind, caller, images, trace } = message
    const local = () =>
      new Promise<LocalSandbox>((resolve) => {
        asking.set(id, resolve)
        send({ type: 'sandbox', id })
      })
    const ofBody = { images: () => images, sandboxes: { named: sandboxes, local }, trace }
    bodies.set(id, {
      ingest: new Ingest(kind, { ...context, ...ofBody }, caller),
      last: Promise.resolve(),
      ended: false,
    })
    return
  }
  const body = bodies.get(id)
  if (body) body.last = body.last.then(() => deal(body, message))
  else if (message.type === 'chunk') send({ type: 'taken', id, bytes: message.bytes.byteLength })
})
