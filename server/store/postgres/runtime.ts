import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, lstatSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import type { Logger } from '../../log.ts'
import { type Account, spawnAs } from './account.ts'
import { type Binaries, copyBinaries, linkLibraries, packagedBinaries } from './binaries.ts'
import { DatabaseStartError } from './start-error.ts'

/** A way to run Postgres on this machine, found by trying candidates. */
export interface Runtime {
  binaries: Binaries
  /** The user that runs Postgres and owns its files, or null for this process's user. */
  account: Account | null
  /** The argument of `-D`. The working directory is the cluster's folder in any case. */
  dataArgument(folder: string): string
  /** The socket's folder, with mode 0700. */
  socketDir: string
  /** Removes the socket's folder and copied binaries. */
  remove(): void
}

export interface RuntimeOptions {
  /** Candidates for the socket's folder, best first. */
  temporary?: string[]
  packaged?: Binaries
}

/** The environment of all Postgres commands, without this process's variables, such as PGPORT, PGDATA or PGOPTIONS. */
const POSTGRES_ENV = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  LC_ALL: 'C',
  TZ: 'UTC',
} as unknown as NodeJS.ProcessEnv

/**
 * A shell between this process and Postgres that holds one end of a pipe. When this process ends in any way, the other
 * end closes, `read` returns and Postgres gets SIGINT: a clean shutdown, 20 ms after a `kill -9` of Node. initdb also
 * runs under such a shell and gets the same signal. A signal to the shell ends the first `wait` early, so the shell
 * waits again while Postgres runs.
 */
const KEEPER = `
exec 3<&0
"$0" "$@" </dev/null 3<&- &
postgres=$!
trap 'kill -INT $postgres' INT TERM HUP
{ read -r _ <&3; kill -INT $postgres; } 2>/dev/null &
watch=$!
exec 3<&- </dev/null
wait $postgres; code=$?
while kill -0 $postgres 2>/dev/null; do wait $postgres; code=$?; done
kill $watch 2>/dev/null
exit $code
`

/** A Postgres program behind its keeper. Closing its standard input shuts it down. */
export interface KeptProcess extends ChildProcess {
  stdin: Writable
  stderr: Readable
}

/**
 * Starts a Postgres program behind a {@link KEEPER} and waits until the keeper has started.
 * @throws DatabaseStartError `start_failed` if it cannot be started, for lack of file descriptors for example
 */
export async function spawnKept(
  { account }: Runtime,
  cwd: string,
  program: string,
  args: readonly string[],
): Promise<KeptProcess> {
  try {
    const child = spawn('/bin/sh', ['-c', KEEPER, program, ...args], {
      ...spawnAs(account),
      cwd,
      env: POSTGRES_ENV,
      stdio: ['pipe', 'ignore', 'pipe'],
      // The child has a separate session, so that Ctrl-C in the terminal reaches only this process, which stops
      // Postgres last.
      detached: true,
    })
    // Without free file descriptors, Node creates no streams and emits `error` after this turn.
    await once(child, 'spawn')
    // Nothing is written to the pipe, but it may still break.
    child.stdin.on('error', () => {})
    return child
  } catch (error) {
    const { message } = error as Error
    throw new DatabaseStartError(
      'start_failed',
      `${basename(program)} could not be started: ${message}`,
      error,
    )
  }
}

/** sun_path in sys/un.h: 108 bytes on Linux and 104 on macOS, including the final NUL. */
const SOCKET_PATH_MAX_BYTES = process.platform === 'linux' ? 107 : 103

/**
 * Finds a way to run Postgres that works here. Without root, this process's user runs it. Root must run it as another
 * account, which cannot reach a checkout under /root:
 *
 * | cannot reach      | solution                                                                             |
 * |-------------------|--------------------------------------------------------------------------------------|
 * | the data folder   | opened to 0711: other users may pass through but not list it                         |
 * | a folder above it | `-D /proc/self/cwd`: a working directory that root has set needs no path (Linux)     |
 * | the binaries      | a copy beside the socket, in the first temporary folder that allows execution        |
 *
 * Rejected alternatives: CAP_DAC_READ_SEARCH by setpriv, because initdb calls access(2), which ignores capabilities; a
 * user namespace, because many containers forbid it and the files would change owners with it.
 * @throws DatabaseStartError `start_failed`, with a list of the attempts
 */
export async function findRuntime(
  dataDir: string,
  account: Account | null,
  log: Logger,
  options: RuntimeOptions = {},
): Promise<Runtime> {
  const temporary = options.temporary ?? [tmpdir(), '/tmp', '/var/tmp', '/dev/shm', '/run']
  const entering = (path: string) => problemOf(account, ['sh', '-c', 'cd "$1"', 'sh', path])
  const running = (binaries: Binaries) => problemOf(account, [binaries.postgres, '--version'])
  const tried: string[] = []

  if (account !== null && (await entering(dataDir)) !== null) openToPassThrough(dataDir, log)
  const dataProblem = account && (await entering(dataDir))
  if (dataProblem !== null && process.platform !== 'linux') {
    throw unrunnable(account, [`${dataDir}: ${dataProblem}`])
  }
  const dataArgument = (folder: string) => (dataProblem === null ? folder : '/proc/self/cwd')
  const packaged = options.packaged ?? packagedBinaries()
  const packagedProblem = linkProblem(packaged) ?? (await running(packaged))
  if (packagedProblem !== null) tried.push(`${packaged.postgres}: ${packagedProblem}`)

  for (const base of new Set(temporary)) {
    const runDir = claimRunDir(base, dataDir, account)
    if (typeof runDir === 'string') {
      tried.push(runDir)
      continue
    }
    const socketProblem = await entering(runDir.socketDir)
    if (socketProblem !== null) tried.push(`${runDir.socketDir}: ${socketProblem}`)
    else if (packagedProblem === null) {
      return { ...runDir, account, dataArgument, binaries: packaged }
    } else {
      try {
        const copy = copyBinaries(packaged, runDir.path)
        const copyProblem = await running(copy)
        if (copyProblem === null) return { ...runDir, account, dataArgument, binaries: copy }
        tried.push(`${copy.postgres}: ${copyProblem}`)
      } catch (error) {
        tried.push(`a copy under ${runDir.path}: ${(error as Error).message}`)
      }
    }
    runDir.remove()
  }
  throw unrunnable(account, tried)
}

function unrunnable(account: Account | null, tried: string[]): DatabaseStartError {
  return new DatabaseStartError(
    'start_failed',
    `the embedded Postgres cannot be run here${account ? ` as "${account.name}"` : ''}:\n  ` +
      `${tried.join('\n  ')}\n` +
      'Move the project to a folder that all users can enter, or set DATABASE_URL.',
  )
}

interface RunDir {
  path: string
  socketDir: string
  remove(): void
}

/**
 * Creates the folder for the socket, whose path must be short, and for copied binaries. Returns the reason if this
 * fails.
 */
function claimRunDir(base: string, dataDir: string, account: Account | null): RunDir | string {
  const uid = process.getuid?.() ?? 0
  // The name depends on the data folder, so that a restart finds the files of a killed predecessor, and on the user, so
  // that root's leftovers do not block other users.
  const key = createHash('sha256').update(`${uid}:${dataDir}`).digest('hex').slice(0, 12)
  const path = join(base, `rewardops-${key}`)
  const socketDir = join(path, 'socket')
  if (Buffer.byteLength(join(socketDir, '.s.PGSQL.5432.lock')) > SOCKET_PATH_MAX_BYTES) {
    return `${socketDir}: longer than the limit of a socket's path`
  }
  try {
    mkdirSync(path, { recursive: true, mode: 0o711 })
    const entry = lstatSync(path)
    // All users can write to /tmp, so a link or another user's folder is refused.
    if (!entry.isDirectory() || entry.uid !== uid) return `${path}: belongs to another user`
    chmodSync(path, 0o711)
    mkdirSync(socketDir, { recursive: true, mode: 0o700 })
    chmodSync(socketDir, 0o700)
    if (account) chownSync(socketDir, account.uid, account.gid)
  } catch (error) {
    return (error as Error).message
  }
  return { path, socketDir, remove: () => rmSync(path, { recursive: true, force: true }) }
}

/** Runs a command as the account, in the root folder. Resolves with its error, or null if it succeeded. */
function problemOf(account: Account | null, [file, ...args]: string[]): Promise<string | null> {
  return new Promise((resolve) => {
    const options = { ...spawnAs(account), cwd: '/', env: POSTGRES_ENV, timeout: 10_000 }
    execFile(file!, args, options, (error, _stdout, stderr) => {
      resolve(error === null ? null : stderr.trim() || error.message)
    })
  })
}

function linkProblem(binaries: Binaries): string | null {
  try {
    linkLibraries(binaries)
    return null
  } catch (error) {
    return (error as Error).message
  }
}

function openToPassThrough(dataDir: string, log: Logger): void {
  const mode = statSync(dataDir).mode & 0o777
  const opened = mode | 0o011
  if (opened === mode) return
  chmodSync(dataDir, opened)
  log.info(
    { dataDir, from: mode.toString(8), to: opened.toString(8) },
    'opened the data folder for the user that Postgres runs as',
  )
}
