import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sendKill } from '../process-signals.ts'
import { inspectProcess, isRunning, markOf, type ProcessMark } from '../store/postgres/processes.ts'
import {
  type KeeperOptions,
  type LaunchCommand,
  type LaunchEnd,
  type LaunchRecord,
  launchFile,
  livingOwner,
  readRecord,
  signalGroup,
  writeRecord,
} from './launch-record.ts'

const KEEPER = fileURLToPath(new URL('./launch-keeper.ts', import.meta.url))
const ADOPT_WITHIN_MS = 60_000
const LOOK_MS = 250

export function launchFolder(dataDir: string): string {
  return join(dataDir, 'servers')
}

export function launchLogFile(folder: string, name: string): string {
  return launchFile(folder, name, 'log')
}

/**
 * Claims the launched servers of dead services. It runs first when the service starts, so that the keepers do not end
 * the servers while the database recovers. Servers of a running service are left alone.
 */
export function claimLaunched(dataDir: string): void {
  const folder = launchFolder(dataDir)
  for (const name of namesIn(folder)) {
    const record = readRecord<LaunchRecord>(launchFile(folder, name, 'pid'))
    if (record !== null && isRunning(record.keeper) && livingOwner(folder, name) === null) {
      claim(folder, name)
    }
  }
}

/**
 * A launched server's process. It has its own process group, so that its children end with it. Its keeper reads its
 * output and outlives this service.
 */
export class LaunchedProcess {
  readonly ended: Promise<LaunchEnd>
  readonly #folder: string
  readonly #name: string
  readonly #keeper: ProcessMark | null
  #isOver = false

  static start(
    folder: string,
    command: LaunchCommand,
    stopWithinMs: number,
    adoptWithinMs = ADOPT_WITHIN_MS,
  ): LaunchedProcess {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    for (const kind of ['pid', 'end'] as const) {
      rmSync(launchFile(folder, command.name, kind), { force: true })
    }
    own(folder, command.name)
    const keeper = spawn(process.execPath, [KEEPER], {
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: '/',
      env: { PATH: command.env.PATH } as unknown as NodeJS.ProcessEnv,
      // The keeper has a separate session, so that signals to the service or its group do not reach it.
      detached: true,
    })
    const options: KeeperOptions = { ...command, folder, stopWithinMs, adoptWithinMs }
    // Without free file descriptors, Node creates no streams and emits `error` after this turn of the event loop.
    keeper.stdin?.on('error', () => {}).end(JSON.stringify(options))
    keeper.unref()
    const gone = new Promise<string | null>((resolve) => {
      keeper.once('exit', () => resolve(null))
      keeper.once('error', (error: NodeJS.ErrnoException) =>
        resolve(`could not be started (${error.code})`),
      )
    })
    return new LaunchedProcess(folder, command.name, markOfChild(keeper), gone)
  }

  /**
   * Takes over the running process of this name. Returns null if there is none. The caller checks that no other service
   * owns the process.
   */
  static adopt(folder: string, name: string): LaunchedProcess | null {
    const record = adoptable(folder, name)
    if (record === null) return null
    claim(folder, name)
    const gone = (async () => {
      while (isRunning(record.keeper)) await pause(LOOK_MS, undefined, { ref: false })
      return null
    })()
    return new LaunchedProcess(folder, name, record.keeper, gone)
  }

  private constructor(
    folder: string,
    name: string,
    keeper: ProcessMark | null,
    gone: Promise<string | null>,
  ) {
    this.#folder = folder
    this.#name = name
    this.#keeper = keeper
    this.ended = gone.then((error) => {
      this.#isOver = true
      return this.#endOf(error)
    })
  }

  get pid(): number | undefined {
    return this.#record()?.pid
  }

  async stop(withinMs: number): Promise<void> {
    if (this.#isOver) return
    const tell = (signal: NodeJS.Signals) => {
      const record = this.#record()
      // The keeper notices the end of the server. A signal to the keeper too would signal the server twice.
      if (record !== null && isRunning(record) && signalServer(record, signal)) return
      if (this.#keeper === null || !isRunning(this.#keeper)) return
      try {
        process.kill(this.#keeper.pid, signal)
      } catch {
        // The process has ended already.
      }
    }
    tell('SIGTERM')
    const last = setTimeout(() => tell('SIGKILL'), withinMs)
    await this.ended
    clearTimeout(last)
  }

  #record(): LaunchRecord | null {
    return readRecord<LaunchRecord>(launchFile(this.#folder, this.#name, 'pid'))
  }

  #endOf(error: string | null): LaunchEnd {
    const ended = readRecord<LaunchEnd>(launchFile(this.#folder, this.#name, 'end'))
    if (ended !== null) return ended
    // The keeper was killed. If its server was killed too, child processes of the server may still run.
    const record = this.#record()
    if (record !== null) signalServer(record, 'SIGKILL')
    removeRecord(this.#folder, this.#name)
    return { code: null, signal: 'SIGKILL', error, livedMs: 0, lastLines: [] }
  }
}

/**
 * Ends the processes that a dead service left running, except those that `isKept` selects. Processes of another
 * running service are left alone. Returns the names of the servers whose processes were ended.
 */
export async function endLeftovers(
  folder: string,
  withinMs: number,
  isKept: (name: string, record: LaunchRecord) => boolean,
): Promise<string[]> {
  const ended = await Promise.all(
    namesIn(folder).map(async (name) => {
      const read = () => readRecord<LaunchRecord>(launchFile(folder, name, 'pid'))
      const record = read()
      const isLeft = () => record !== null && (isRunning(record) || isRunning(record.keeper))
      if (record === null || !isLeft()) {
        removeRecord(folder, name)
        return []
      }
      if (isOwnedByAnother(folder, name)) return []
      if (isRunning(record) && isRunning(record.keeper) && isKept(name, record)) return []
      signalServer(record, 'SIGTERM')
      // A keeper that ends later would replace the files of the next launch.
      const until = performance.now() + withinMs
      while (isLeft() && performance.now() < until) await pause(100)
      signalServer(record, 'SIGKILL')
      if (isRunning(record.keeper)) sendKill(record.keeper.pid)
      // A call may have launched the server again meanwhile.
      if (read()?.pid === record.pid) removeRecord(folder, name)
      return [name]
    }),
  )
  return ended.flat()
}

/** The record of the process that {@link LaunchedProcess.adopt} takes over, or null if there is none. */
export function adoptable(folder: string, name: string): LaunchRecord | null {
  const record = readRecord<LaunchRecord>(launchFile(folder, name, 'pid'))
  return record !== null && isRunning(record) && isRunning(record.keeper) ? record : null
}

export function isOwnedByAnother(folder: string, name: string): boolean {
  const record = readRecord<LaunchRecord>(launchFile(folder, name, 'pid'))
  if (record === null || !isRunning(record)) return false
  const owner = livingOwner(folder, name)
  return owner !== null && owner.pid !== process.pid
}

/**
 * Sends a signal to the process group of a launched server, which may have ended. Returns false if the group does not
 * exist.
 */
function signalServer({ pid, startedAt }: LaunchRecord, signal: NodeJS.Signals): boolean {
  try {
    const found = inspectProcess(pid)
    // A pid is not reused while its group exists, so a later process with this pid leads another group.
    if (found !== null && found.startedAt !== startedAt) return false
  } catch {
    // The process table cannot be read now.
  }
  return signalGroup(pid, signal)
}

/** Deletes the record of an ended process. A file that cannot be deleted must not prevent launches. */
function removeRecord(folder: string, name: string): void {
  try {
    rmSync(launchFile(folder, name, 'pid'), { force: true })
  } catch {}
}

function own(folder: string, name: string): void {
  const mark = markOf(process.pid)
  if (mark !== null) writeRecord(launchFile(folder, name, 'owner'), mark)
}

/** Records this service as the owner of a process. If that fails, the keeper ends it, and another one is started. */
function claim(folder: string, name: string): void {
  try {
    own(folder, name)
  } catch {}
}

function namesIn(folder: string): string[] {
  try {
    const files = readdirSync(folder).filter((file) => file.endsWith('.pid'))
    return files.map((file) => file.slice(0, -'.pid'.length))
  } catch {
    return []
  }
}

function markOfChild({ pid }: ChildProcess): ProcessMark | null {
  try {
    return pid === undefined ? null : markOf(pid)
  } catch {
    // The process table cannot be read now. The record that the keeper writes identifies the child instead.
    return null
  }
}
