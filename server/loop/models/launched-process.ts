import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { inspectProcess } from '../../store/postgres/processes.ts'
import { LaunchLog } from './launch-log.ts'

/** What to start. */
export interface LaunchCommand {
  name: string
  argv: readonly string[]
  cwd: string | undefined
  env: NodeJS.ProcessEnv
  /** Never written down. */
  secrets: readonly string[]
}

/** How a process ended. */
export interface LaunchEnd {
  code: number | null
  signal: NodeJS.Signals | null
  /** Could not be started at all. */
  error: string | null
  livedMs: number
  /** Secrets masked. */
  lastLines: string[]
}

/** The folder of a launched server's files, under the data folder. */
export function launchFolder(dataDir: string): string {
  return join(dataDir, 'servers')
}

/** The log of a launched server. */
export function launchLogFile(folder: string, name: string): string {
  return join(folder, `${name}.log`)
}

interface PidFile {
  pid: number
  /** As the process table says it: another process that was given the pid since has another. */
  startedAt: string
}

/**
 * One run of a launched server's process: in a process group of its own, so that its children end with it; its output in
 * a log; its pid in a file, so that a start after a crash of ours can end it.
 */
export class LaunchedProcess {
  readonly ended: Promise<LaunchEnd>
  readonly #child: ChildProcess
  #running = true

  constructor(folder: string, command: LaunchCommand) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const log = new LaunchLog(launchLogFile(folder, command.name), command.secrets)
    const pidFile = join(folder, `${command.name}.pid`)
    const [program, ...args] = command.argv as [string, ...string[]]
    const begun = performance.now()
    this.#child = spawn(program, args, {
      cwd: command.cwd,
      env: command.env,
      stdio: ['ignore', 'pipe', 'pipe'],
      shell: false,
      // A group of its own, which can be ended as a whole. It is not let go of: it ends with us.
      detached: true,
    })
    const child = this.#child
    if (child.pid !== undefined) {
      log.note(`started as process ${child.pid}`)
      const facts = inspectProcess(child.pid)
      const text = JSON.stringify({
        pid: child.pid,
        startedAt: facts?.startedAt ?? '',
      } satisfies PidFile)
      writeFileSync(pidFile, text, { mode: 0o600 })
    }
    log.read(child.stdout!)
    log.read(child.stderr!)
    this.ended = new Promise((resolve) => {
      const end = (code: number | null, signal: NodeJS.Signals | null, error: string | null) => {
        if (!this.#running) return
        this.#running = false
        rmSync(pidFile, { force: true })
        log.note(error ?? `ended with ${signal ?? `code ${code}`}`)
        const livedMs = Math.round(performance.now() - begun)
        resolve({ code, signal, error, livedMs, lastLines: log.lastLines })
      }
      child.once('error', (error: NodeJS.ErrnoException) => {
        // Never started: of one that runs, only a failed signal comes here.
        if (child.pid === undefined) end(null, null, `could not be started (${error.code})`)
      })
      child.once('exit', (code, signal) => {
        // What it started and left behind would hold its port and its memory.
        this.#signal('SIGKILL')
        // Its last words may still be in the pipe; children that hold the pipe open are not waited for.
        const last = setTimeout(() => end(code, signal, null), 500)
        child.once('close', () => {
          clearTimeout(last)
          end(code, signal, null)
        })
      })
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /** SIGTERM to the whole group, and SIGKILL to what is left of it after a while. */
  async stop(withinMs: number): Promise<void> {
    if (!this.#running) return
    this.#signal('SIGTERM')
    const last = setTimeout(() => this.#signal('SIGKILL'), withinMs)
    await this.ended
    clearTimeout(last)
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#child.pid !== undefined) signalGroup(this.#child.pid, signal)
  }
}

function signalGroup(leader: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(-leader, signal)
    return true
  } catch {
    return false
  }
}

/**
 * Ends the processes that a service left running which died without ending them; of a pid that another process was
 * given since, only the file is removed. Gives the names of the servers whose processes were ended.
 */
export async function endLeftovers(folder: string, withinMs: number): Promise<string[]> {
  let files: string[]
  try {
    files = readdirSync(folder).filter((file) => file.endsWith('.pid'))
  } catch {
    return []
  }
  const ended = await Promise.all(
    files.map(async (file) => {
      const path = join(folder, file)
      const left = readPid(path)
      const isLeft = () => {
        const facts = left && inspectProcess(left.pid)
        return facts?.running === true && facts.startedAt === left?.startedAt
      }
      const wasLeft = isLeft()
      if (left && wasLeft) {
        signalGroup(left.pid, 'SIGTERM')
        const until = performance.now() + withinMs
        while (isLeft() && performance.now() < until) await pause(100)
        signalGroup(left.pid, 'SIGKILL')
      }
      rmSync(path, { force: true })
      return wasLeft ? [file.slice(0, -'.pid'.length)] : []
    }),
  )
  return ended.flat()
}

function readPid(path: string): PidFile | null {
  try {
    const value = JSON.parse(readFileSync(path, 'utf8')) as Partial<PidFile>
    return typeof value.pid === 'number' && typeof value.startedAt === 'string'
      ? (value as PidFile)
      : null
  } catch {
    return null
  }
}
