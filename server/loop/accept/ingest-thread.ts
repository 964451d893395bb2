import { parentPort, workerData } from 'node:worker_threads'
import { isRewardOpsError } from '../../errors.ts'
import { createLogger } from '../../log.ts'
import { Database, isConnectionLoss } from '../../store/database.ts'
import { JobQueue } from '../../store/job-queue.ts'
import type { AcceptContext } from './accept-batch.ts'
import { Ingest, type IngestKind } from './ingest.ts'

/** What the server tells the thread; `id` names one body. */
export type ToThread =
  | { type: 'begin'; id: number; kind: IngestKind }
  | { type: 'chunk'; id: number; bytes: Uint8Array }
  | { type: 'end'; id: number }
  | { type: 'abort'; id: number }

/** What it answers: bytes dealt with (back-pressure), and how the body ended. */
export type FromThread =
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
  | { type: 'failed'; id: number; message: string; connectionLoss: boolean }

const port = parentPort!
const { databaseUrl, functionsDir, logLevel } = workerData as {
  databaseUrl: string
  functionsDir: string
  logLevel: string
}
const log = createLogger(logLevel, 'ingest')
const db = new Database(databaseUrl, log, { max: 2, name: 'rewardops ingest', keyed: true })
const queue = new JobQueue(db, log, { supervise: false })
const ready = queue.start()
const context: AcceptContext = { db, queue, functionsDir }
const bodies = new Map<number, Ingest>()

function tell(message: FromThread): void {
  port.postMessage(message)
}

function tellError(id: number, error: unknown): void {
  bodies.delete(id)
  if (isRewardOpsError(error)) {
    const { reason, message, hint, retryAfterMs } = error
    tell({ type: 'refused', id, reason, message, hint, retryAfterMs })
  } else {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error)
    tell({ type: 'failed', id, message, connectionLoss: isConnectionLoss(error) })
  }
}

port.on('message', (message: ToThread) => {
  const { id } = message
  if (message.type === 'begin') {
    bodies.set(id, new Ingest(message.kind))
    return
  }
  const body = bodies.get(id)
  if (message.type === 'chunk') {
    const bytes = message.bytes.byteLength
    try {
      body?.push(Buffer.from(message.bytes.buffer, message.bytes.byteOffset, bytes))
    } catch (error) {
      tellError(id, error)
    }
    tell({ type: 'taken', id, bytes })
  } else if (message.type === 'abort') {
    bodies.delete(id)
  } else if (body) {
    ready
      .then(() => body.finish(context))
      .then((result) => {
        bodies.delete(id)
        tell({ type: 'done', id, result })
      })
      .catch((error) => tellError(id, error))
  }
})
