import { writeSync } from 'node:fs'
import { type Debugger, Session } from 'node:inspector'
import { type MessagePort, workerData } from 'node:worker_threads'
import { endGroup } from './end-group.ts'
import { MARKS_FD, SHARED } from './protocol.ts'

/**
 * The thread beside user code: looks whether the main thread still answers and how much memory the process holds, and
 * names the call that runs there. It writes marks itself, since the main thread may never run again.
 *
 * A call whose code is on the stack since it began is in the shared numbers. One that went on after an `await` is not:
 * the main thread is halted through the inspector and asked for its AsyncLocalStorage, within 3 ms where it runs
 * JavaScript or a regular expression, and not at all where it waits inside a system call.
 */

const { shared, port, memoryBytes } = workerData as {
  shared: Int32Array
  port: MessagePort
  /** Above what the process has now. */
  memoryBytes: number
}

const EVERY_MS = 50
/** The main thread has not answered for so long: it is held up. */
const BLOCKED_MS = 250
/** While it is held up, who holds it is looked at again; it may be another by now. */
const LOOK_AGAIN_MS = 500
const ASK_MS = 400
/** Evaluated in the halted frame. */
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
  // Said at once, whoever it is: from now on no time of the others runs.
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

/** The call in whose continuation the main thread is now; 0: nobody could be named. */
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
    // It is not halted before it runs JavaScript again.
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
    // Also takes back a halt that has not happened.
    inspector.post('Debugger.disable')
    asking = false
  }
}

function mark(line: string): void {
  try {
    writeSync(MARKS_FD, `${line}\n`)
  } catch {
    // The worker is gone, and the main thread may never see that its channel was closed.
    endGroup()
  }
}
