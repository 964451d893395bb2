import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { inspectProcess, markOf, type ProcessMark } from '../store/postgres/processes.ts'
import { LaunchLog } from './launch-log.ts'
import {
  type KeeperOptions,
  type LaunchEnd,
  type LaunchRecord,
  launchFile,
  livingOwner,
  signalGroup,
  writeRecord,
} from './launch-record.ts'

/**
 * The keeper process between the service and a launched server. It outlives the service, so that a model that takes
 * minutes to load survives a crash of the service.
 *
 *   owned ──owner died──▶ waiting ──next start takes over──▶ owned
 *                            │ adoptWithinMs
 *                            ▼
 *                      SIGTERM, SIGKILL
 */

const LOOK_MS = 1_000
/** Time to wait for the last output in the pipe, in ms. Child processes of the server may keep the pipe open longer. */
const LAST_WORDS_MS = 500

async function keep(): Promise<void> {
  let isStopping = false
  let stop = (): void => process.exit(0)
  process.on('SIGTERM', () => {
    isStopping = true
    stop()
  })
  // A SIGINT from the terminal is meant for the service.
  process.on('SIGINT', () => {})
  process.on('SIGHUP', () => {})
  let options: KeeperOptions
  try {
    options = JSON.parse(await text(process.stdin)) as KeeperOptions
  } catch {
    // The service ended before it sent the command.
    process.exit(1)
  }
  if (isStopping) process.exit(0)
  const { folder, name, argv, cwd, env, secrets, fingerprint, stopWithinMs } = options
  const log = new LaunchLog(launchFile(folder, name, 'log'), secrets)
  const pidFile = launchFile(folder, name, 'pid')
  const [program, ...args] = argv as [string, ...string[]]
  const begun = performance.now()
  let isOver = false
  const end = (code: number | null, signal: NodeJS.Signals | null, error: string | null) => {
    if (isOver) return
    isOver = true
    log.note(error ?? `ended with ${signal ?? `code ${code}`}`)
    const livedMs = Math.round(performance.now() - begun)
    const ended: LaunchEnd = { code, signal, error, livedMs, lastLines: log.lastLines }
    writeRecord(launchFile(folder, name, 'end'), ended)
    rmSync(pidFile, { force: true })
    process.exit(0)
  }
  let child: ChildProcessByStdio<null, Readable, Readable> | undefined
  try {
    // The server runs in its own process group, which can be killed as a whole.
    child = spawn(program, args, {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      shell: false,
      detached: true,
    })
    // Without free file descriptors, Node creates no streams and emits `error` after this turn of the event loop.
    await once(child, 'spawn')
    const record: LaunchRecord = {
      pid: child.pid as number,
      startedAt: inspectProcess(child.pid as number)?.startedAt ?? '',
      keeper: markOf(process.pid) as ProcessMark,
      fingerprint,
    }
    writeRecord(pidFile, record)
  } catch (error) {
    // Without a record, no service could find the process.
    if (child?.pid !== undefined) signalGroup(child.pid, 'SIGKILL')
    return end(null, null, `could not be started (${(error as NodeJS.ErrnoException).code})`)
  }
  const pid = child.pid as number
  stop = () => {
    signalGroup(pid, 'SIGTERM')
    setTimeout(() => signalGroup(pid, 'SIGKILL'), stopWithinMs).unref()
  }
  log.note(`started as process ${pid}`)
  log.read(child.stdout)
  log.read(child.stderr)
  child.once('exit', (code, signal) => {
    // Remaining child processes would keep the server's port and memory.
    signalGroup(pid, 'SIGKILL')
    setTimeout(() => end(code, signal, null), LAST_WORDS_MS)
    child.once('close', () => end(code, signal, null))
  })

  let aloneSinceMs: number | null = null
  setInterval(() => {
    if (livingOwner(folder, name) !== null) {
      aloneSinceMs = null
      return
    }
    aloneSinceMs ??= performance.now()
    if (performance.now() - aloneSinceMs < options.adoptWithinMs || isStopping) return
    isStopping = true
    log.note('stopping: no service took over this server')
    stop()
  }, LOOK_MS)
}

void keep()
