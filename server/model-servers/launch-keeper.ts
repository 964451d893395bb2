import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { LaunchLog } from './launch-log.ts'
import {
  type KeeperOptions,
  type LaunchEnd,
  type LaunchRecord,
  launchFile,
  livingOwner,
  markOf,
  type ProcessMark,
  signalGroup,
  writeRecord,
} from './launch-record.ts'

/**
 * The process between the service and a server that it launched. It outlives the service, so that a model that takes
 * minutes to load survives a crash: it reads the server's output, masks secrets in it and writes the log.
 *
 *   owned ──owner died──▶ waiting ──owned by the next start──▶ owned
 *                            │ adoptWithinMs
 *                            ▼
 *                      SIGTERM, SIGKILL
 */

const LOOK_MS = 1_000
/** Last words may still be in the pipe; children that hold it open are not waited for. */
const LAST_WORDS_MS = 500

async function keep(): Promise<void> {
  let isStopping = false
  let stop = (): void => process.exit(0)
  process.on('SIGTERM', () => {
    isStopping = true
    stop()
  })
  // What a terminal sends is for the service.
  process.on('SIGINT', () => {})
  process.on('SIGHUP', () => {})
  let options: KeeperOptions
  try {
    options = JSON.parse(await text(process.stdin)) as KeeperOptions
  } catch {
    // The service ended before it had said what to run.
    process.exit(1)
  }
  if (isStopping) process.exit(0)
  const { folder, name, argv, cwd, env, secrets, fingerprint, stopWithinMs } = options
  const log = new LaunchLog(launchFile(folder, name, 'log'), secrets)
  const pidFile = launchFile(folder, name, 'pid')
  const [program, ...args] = argv as [string, ...string[]]
  const begun = performance.now()
  // A group of its own, which can be ended as a whole.
  const child = spawn(program, args, {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    shell: false,
    detached: true,
  })
  const { pid } = child
  stop = () => {
    if (pid === undefined) return
    signalGroup(pid, 'SIGTERM')
    setTimeout(() => signalGroup(pid, 'SIGKILL'), stopWithinMs).unref()
  }
  if (pid !== undefined) {
    log.note(`started as process ${pid}`)
    const record: LaunchRecord = {
      ...(markOf(pid) ?? { pid, startedAt: '' }),
      keeper: markOf(process.pid) as ProcessMark,
      fingerprint,
    }
    writeRecord(pidFile, record)
  }
  log.read(child.stdout)
  log.read(child.stderr)

  let isOver = false
  const end = (code: number | null, signal: NodeJS.Signals | null, error: string | null) => {
    if (isOver) return
    isOver = true
    log.note(error ?? `ended with ${signal ?? `code ${code}`}`)
    const livedMs = Math.round(performance.now() - begun)
    const told: LaunchEnd = { code, signal, error, livedMs, lastLines: log.lastLines }
    writeRecord(launchFile(folder, name, 'end'), told)
    rmSync(pidFile, { force: true })
    process.exit(0)
  }
  child.once('error', (error: NodeJS.ErrnoException) => {
    // Never started: of one that runs, only a failed signal comes here.
    if (pid === undefined) end(null, null, `could not be started (${error.code})`)
  })
  child.once('exit', (code, signal) => {
    // What it started and left behind would hold its port and its memory.
    if (pid !== undefined) signalGroup(pid, 'SIGKILL')
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
    log.note('no service has taken it over')
    stop()
  }, LOOK_MS)
}

void keep()
