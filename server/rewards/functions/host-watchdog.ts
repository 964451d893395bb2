import { writeSync } from 'node:fs'
import { type Debugger, Session } from 'node:inspector'
import { type MessagePort, workerData } from 'node:worker_threads'
import { endGroup } from './end-group.ts'
import { MARKS_FD, SHARED } from './protocol.ts'

/**
 * A second thread in the process that runs user code. It checks whether the main thread responds and how much memory
 * the process uses, and identifies the running call. It writes its marks (protocol.ts) itself, because the main thread
 * may never run again.
 *
 * `shared` holds the id of the call that has begun and not yet returned. A call that continued after an `await` is
 * found through the inspector, which takes up to 3 ms and is impossible inside a system call.
 */

const { shared, port, memoryBytes } = workerData as {
  shared: Int32Array
  port: MessagePort
  /** Memory limit in addition to the memory of the process when this thread starts. */
  memoryBytes: number
}

const EVERY_MS = 50
/** The main thread counts as blocked after this long without a response. */
const BLOCKED_MS = 250
/** While the main thread is blocked, the running call is identified again at this interval, because it may change. */
const LOOK_AGAIN_MS = 500
const ASK_MS = 400
/** Expression for the running call's id, evaluated in the halted frame. */
const WHO = 'globalThis[Symbol.for("rewardops.call")]()'

const limitBytes = process.memoryUsage.rss() + memoryBytes
const inspector = new Session()
inspector.connectToMainThread()

let ping = 0
let pingAt = 0
let saidAt = 0
let asking = false
let overMemory = false

setInterval(() => {
  watchMemory()
  watchLoop()
}, EVERY_MS)

function watchLoop(): void {
  const now = performance.now()
  if (Atomics.load(shared, SHARED.pong) === ping) {
    if (saidAt > 0) mark('U')
    saidAt = 0
    ping++
    pingAt = now
    port.postMessage(ping)
    return
  }
  const ms = now - pingAt
  if (ms < BLOCKED_MS || asking || (saidAt > 0 && now - saidAt < LOOK_AGAIN_MS)) return
  // The block is reported before the call is identified, because the report pauses the time limits of the other calls.
  const id = Atomics.load(shared, SHARED.running)
  if (id > 0 || saidAt === 0) mark(`B ${Math.round(ms)} ${id}`)
  saidAt = now
  if (id > 0) return
  void ask().then((named) => {
    if (Atomics.load(shared, SHARED.pong) !== ping) {
      mark(`B ${Math.round(performance.now() - pingAt)} ${named}`)
    }
  })
}

function watchMemory(): void {
  if (overMemory) return
  const bytes = process.memoryUsage.rss()
  if (bytes < limitBytes) return
  overMemory = true
  const id = Atomics.load(shared, SHARED.running)
  if (id > 0) mark(`M ${bytes} ${id}`)
  else void ask().then((named) => mark(`M ${bytes} ${named}`))
}

/** Returns the id of the call whose code the main thread is running, or 0 if unknown. */
async function ask(): Promise<number> {
  if (asking) return 0
  asking = true
  let late: NodeJS.Timeout | undefined
  try {
    const halted = new Promise<number>((resolve, reject) => {
      inspector.once('Debugger.paused', ({ params }) => {
        const frame = params.callFrames[0]?.callFrameId
        if (frame === undefined) return resolve(0)
        const question = { callFrameId: frame, expression: WHO, returnByValue: true }
        inspector.post(
          'Debugger.evaluateOnCallFrame',
          question,
          (error: Error | null, answer?: Debugger.EvaluateOnCallFrameReturnType) => {
            if (error) reject(error)
            else resolve(Number(answer?.result.value) || 0)
          },
        )
      })
    })
    // The debugger can pause the thread only while it runs JavaScript, so the wait has a time limit.
    const given = new Promise<number>((resolve) => {
      late = setTimeout(() => resolve(0), ASK_MS)
    })
    inspector.post('Debugger.enable')
    inspector.post('Debugger.pause')
    return await Promise.race([halted, given])
  } catch {
    return 0
  } finally {
    clearTimeout(late)
    inspector.removeAllListeners('Debugger.paused')
    // This also cancels a halt that has not happened yet.
    inspector.post('Debugger.disable')
    asking = false
  }
}

function mark(line: string): void {
  try {
    writeSync(MARKS_FD, `${line}\n`)
  } catch {
    // The worker that read the marks has ended. The main thread may never notice that, so the process is killed here.
    endGroup()
  }
}
