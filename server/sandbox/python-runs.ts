import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, mkdirSync, rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { type SandboxBind, spawnSandboxed } from '../isolation/sandbox.ts'
import { type FilteredArch, seccompFilter } from '../isolation/seccomp.ts'
import type { Logger } from '../log.ts'
import type { RunJob, RunReport } from './run-job.ts'

const PYTHON_FOLDER = fileURLToPath(new URL('./python', import.meta.url))
/** Where the sandbox mounts the folder with the Python package and the socket. Runs do not see it. */
const FOLDER_INSIDE = '/opt/rewardops'
/** Maximum time for the interpreter or a fork to start, ms. */
const START_MS = 20_000
/** Delay after a failed fork, ms. The sandbox may lack processes or memory until other runs end. */
const REFILL_MS = 100
const MAX_BACKOFF_MS = 5_000
/** Maximum size of a run's report, bytes: its output, escaped as JSON. */
const MAX_REPORT_BYTES = 64 * 1024 * 1024
/** If the service runs as root, programs run as this user. */
const NOBODY = { uid: 65_534, gid: 65_534 }

/**
 * Socket families that programs may use: none. All runs share one network namespace with only a loopback interface, so
 * sockets of different runs could reach each other.
 */
const NO_SOCKETS: number[] = []

export interface PythonRunsOptions {
  /**
   * Absolute path of a folder that only this object uses. The folder is emptied at the start. The user that programs
   * run as must be able to enter its parent folders.
   */
  folder: string
  /** Absolute path of the interpreter. */
  python: string
  /** Folders outside /usr that hold the interpreter and its modules. */
  binds: readonly SandboxBind[]
  /** Number of forks that are started in advance and wait for a job. */
  idle: number
  log: Logger
}

/** Thrown if a run ended without a report, for example because its sandbox ended. The run can be repeated. */
export class RunLostError extends Error {
  override readonly name = 'RunLostError'
}

/**
 * Runs Python programs in warm forks: one interpreter per service starts in a sandbox (bubblewrap) and loads the usual
 * modules. Each run is a fork of the interpreter in new namespaces. The fork connects to a Unix socket of this process
 * and gets one job. The interpreter never sees a job, so no fork holds data of another run.
 *
 *   interpreter ──fork──▶ idle ──job──▶ running ──report──▶ ended
 */
export class PythonRuns {
  readonly #options: PythonRunsOptions
  readonly #server: Server
  readonly #idle: Socket[] = []
  readonly #waiting: ((socket: Socket) => void)[] = []
  #interpreter: ChildProcess | null = null
  /** Number of forks that were requested and are not ready yet. */
  #starting = 0
  #failures = 0
  #isClosing = false
  #retry: NodeJS.Timeout | undefined
  #version = ''

  constructor(options: PythonRunsOptions) {
    this.#options = options
    this.#server = createServer((socket) => this.#connected(socket))
  }

  get version(): string {
    return this.#version
  }

  get pid(): number | undefined {
    return this.#interpreter?.pid
  }

  /** @throws Error with the reason if the interpreter does not start */
  async start(): Promise<void> {
    const { folder } = this.#options
    const socketPath = join(folder, 'runs.sock')
    rmSync(folder, { recursive: true, force: true })
    mkdirSync(folder, { mode: 0o700 })
    cpSync(PYTHON_FOLDER, folder, { recursive: true, filter: isSource })
    this.#server.listen(socketPath)
    await once(this.#server, 'listening')
    chmodSync(socketPath, 0o600)
    const user = sandboxUser()
    if (user !== undefined) {
      for (const path of [folder, socketPath]) chownSync(path, user.uid, user.gid)
    }
    await this.#startInterpreter()
  }

  /**
   * Runs a job. Aborting the signal ends the run immediately.
   * @throws RunLostError if the run ends without a report, or the signal's reason if it aborts
   */
  async run(job: RunJob, signal?: AbortSignal): Promise<RunReport> {
    signal?.throwIfAborted()
    const socket = await this.#next(signal)
    const end = () => socket.destroy()
    signal?.addEventListener('abort', end, { once: true })
    try {
      const body = Buffer.from(JSON.stringify(job))
      socket.write(framed(body))
      return JSON.parse((await readFrame(socket)).toString()) as RunReport
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      signal?.removeEventListener('abort', end)
      socket.destroy()
    }
  }

  async close(): Promise<void> {
    this.#isClosing = true
    clearTimeout(this.#retry)
    this.#server.close()
    for (const socket of this.#idle.splice(0)) socket.destroy()
    const interpreter = this.#interpreter
    if (interpreter !== null && interpreter.exitCode === null && interpreter.signalCode === null) {
      const ended = once(interpreter, 'exit')
      interpreter.kill('SIGKILL')
      await ended
    }
    rmSync(this.#options.folder, { recursive: true, force: true })
  }

  async #startInterpreter(): Promise<void> {
    const { folder, python, binds, log } = this.#options
    const user = sandboxUser()
    const child = spawnSandboxed(
      [python, '-s', '-B', '-m', 'rewardops_sandbox', `${FOLDER_INSIDE}/runs.sock`],
      {
        binds: [...binds, { from: folder, to: FOLDER_INSIDE }],
        cwd: FOLDER_INSIDE,
        env: {
          PATH: '/usr/local/bin:/usr/bin:/bin',
          HOME: '/tmp',
          LANG: 'C.UTF-8',
          // With a fixed seed, sets of strings have the same order after each start, so verdicts are the same.
          PYTHONHASHSEED: '0',
        },
        tmpBytes: 1 << 20,
        network: 'none',
        limits: {},
        filterForChildren: seccompFilter(process.arch as FilteredArch, NO_SOCKETS),
        stdio: ['pipe', 'pipe', 'pipe'],
        ...(user && { user }),
      },
    )
    const startedAt = performance.now()
    this.#interpreter = child
    this.#starting = 0
    let isReady = false
    let problem = ''
    createInterface({ input: child.stderr as Readable }).on('line', (line) => {
      problem = line
      log.warn({ line }, 'sandbox')
    })
    child.stdin?.on('error', () => {})
    const lines = createInterface({ input: child.stdout as Readable })
    const late = setTimeout(() => child.kill('SIGKILL'), START_MS)
    const ready = new Promise<void>((resolve, reject) => {
      lines.once('line', (line) => {
        clearTimeout(late)
        isReady = true
        this.#version = (JSON.parse(line) as { version: string }).version
        resolve()
      })
      child.once('error', reject)
      child.once('close', (code) =>
        reject(new Error(`the interpreter ended with ${code}: ${problem || 'no message'}`)),
      )
    })
    child.once('exit', () => {
      this.#interpreter = null
      if (isReady) this.#startAgain(performance.now() - startedAt)
    })
    await ready
    if (this.#interpreter !== child) throw new Error('the interpreter ended after its start')
    this.#fill()
  }

  #startAgain(livedMs: number): void {
    if (this.#isClosing) return
    this.#options.log.error({ livedMs: Math.round(livedMs) }, 'the sandbox interpreter ended')
    this.#failures = livedMs > 10_000 ? 0 : this.#failures + 1
    this.#retry = setTimeout(
      () => {
        this.#startInterpreter().catch((error: Error) => {
          this.#options.log.error({ err: error.message }, 'the sandbox interpreter did not start')
          this.#startAgain(0)
        })
      },
      Math.min(MAX_BACKOFF_MS, 50 * 2 ** this.#failures),
    )
  }

  #fill(): void {
    const missing = this.#options.idle + this.#waiting.length - this.#idle.length - this.#starting
    if (missing <= 0 || this.#isClosing || this.#interpreter === null) return
    this.#starting += missing
    this.#interpreter.stdin?.write(Buffer.alloc(missing, 1))
  }

  /** Waits for the byte that a fork sends when it is ready. */
  #connected(socket: Socket): void {
    const interpreter = this.#interpreter
    const started = () => {
      if (interpreter !== null && this.#interpreter === interpreter) this.#starting--
    }
    const failed = () => {
      started()
      setTimeout(() => {
        if (this.#waiting.length > 0) this.#fill()
      }, REFILL_MS).unref()
    }
    socket.on('error', () => {})
    socket.once('close', failed)
    socket.setTimeout(START_MS, () => socket.destroy())
    socket.once('readable', () => {
      if (socket.read(1) === null) return
      socket.off('close', failed)
      socket.setTimeout(0)
      started()
      this.#ready(socket)
    })
  }

  #ready(socket: Socket): void {
    const waiting = this.#waiting.shift()
    if (waiting !== undefined) {
      waiting(socket)
      return
    }
    this.#idle.push(socket)
    socket.once('close', () => {
      const at = this.#idle.indexOf(socket)
      if (at >= 0) this.#idle.splice(at, 1)
    })
  }

  #next(signal: AbortSignal | undefined): Promise<Socket> {
    const idle = this.#idle.shift()
    if (idle !== undefined) {
      this.#fill()
      return Promise.resolve(idle)
    }
    return new Promise((resolve, reject) => {
      const take = (socket: Socket) => {
        signal?.removeEventListener('abort', leave)
        resolve(socket)
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(take), 1)
        reject(signal?.reason)
      }
      this.#waiting.push(take)
      signal?.addEventListener('abort', leave, { once: true })
      this.#fill()
    })
  }
}

const isSource = (path: string): boolean => !path.includes('__pycache__')

/** The user that programs run as; undefined for the user of this process. */
export function sandboxUser(): { uid: number; gid: number } | undefined {
  return process.getuid?.() === 0 ? NOBODY : undefined
}

function framed(body: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt32LE(body.length)
  return Buffer.concat([head, body])
}

/** @throws RunLostError if the connection ends before the whole frame has arrived, or if the frame is too large */
async function readFrame(socket: Socket): Promise<Buffer> {
  const pieces: Buffer[] = []
  let bytes = 0
  let end: number | null = null
  for await (const piece of piecesOf(socket)) {
    pieces.push(piece)
    bytes += piece.length
    if (bytes > MAX_REPORT_BYTES) throw new RunLostError('the report of a run is too large')
    if (end === null && bytes >= 4) end = 4 + Buffer.concat(pieces).readUInt32LE(0)
    if (end !== null && bytes >= end) return Buffer.concat(pieces).subarray(4, end)
  }
  throw new RunLostError('the run ended without a report')
}

/** Yields a connection's data. A reset means that the run ended: its process was killed before it read its job. */
async function* piecesOf(socket: Socket): AsyncGenerator<Buffer> {
  try {
    yield* socket as AsyncIterable<Buffer>
  } catch (error) {
    throw new RunLostError(`the run ended without a report: ${(error as Error).message}`)
  }
}
