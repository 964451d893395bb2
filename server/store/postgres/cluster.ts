import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../log.ts'
import { giveTo } from './account.ts'
import { inspectProcess } from './processes.ts'
import { SUPERUSER } from './roles.ts'
import { type Runtime, spawnKept } from './runtime.ts'
import { DatabaseStartError } from './start-error.ts'

/** The major version of the bundled Postgres. It cannot read data folders of other versions. */
const MAJOR = '18'

/**
 * Creates the cluster if there is none (0.4 s). initdb writes into a folder beside it, which is renamed when it is
 * complete. PG_VERSION, which marks a cluster, is one of the first files written, so a killed initdb would otherwise
 * leave a folder that looks like a cluster.
 * @throws DatabaseStartError `data_folder_unusable` for a folder with other contents, `start_failed` if initdb fails
 */
export async function ensureCluster(
  folder: string,
  runtime: Runtime,
  log: Logger,
  signal?: AbortSignal,
): Promise<void> {
  const uid = process.getuid?.()
  const ownerUid = statSync(folder, { throwIfNoEntry: false })?.uid
  if (uid !== 0 && ownerUid !== undefined && ownerUid !== uid) {
    throw new DatabaseStartError(
      'data_folder_unusable',
      `${folder} belongs to the user with id ${ownerUid}, and this process runs as ${uid}: was it once ` +
        'started as root? Give the folder to this user, or set REWARDOPS_DATA_DIR to another.',
    )
  }
  const versionFile = join(folder, 'PG_VERSION')
  if (existsSync(versionFile)) {
    const version = readFileSync(versionFile, 'utf8').trim()
    if (version !== MAJOR) {
      throw new DatabaseStartError(
        'data_folder_unusable',
        `${folder} was written by Postgres ${version}, the embedded one is ${MAJOR}. ` +
          `Start with an empty REWARDOPS_DATA_DIR, or run Postgres ${version} on it and set DATABASE_URL.`,
      )
    }
    giveTo(runtime.account, folder)
    return
  }
  if (existsSync(folder) && readdirSync(folder).length > 0) {
    throw new DatabaseStartError(
      'data_folder_unusable',
      `${folder} is neither empty nor a Postgres data folder; it was left as it is. ` +
        'Set REWARDOPS_DATA_DIR to another folder.',
    )
  }
  const startedAt = performance.now()
  const draft = `${folder}.new`
  rmSync(draft, { recursive: true, force: true })
  // An initdb that outlived a killed service removes its own files. If that happens during `rmSync`, `rmSync` leaves
  // the folder and throws nothing.
  while (existsSync(draft)) {
    await sleep(20, undefined, { signal })
    rmSync(draft, { recursive: true, force: true })
  }
  mkdirSync(draft, { mode: 0o700 })
  giveTo(runtime.account, draft)
  // Postgres's built-in locale C.UTF-8 sorts by code point, maps the case of all of Unicode, and is the same on every
  // machine.
  const args = [
    ...['-D', runtime.dataArgument(draft), '-U', SUPERUSER, '-A', 'trust', '-E', 'UTF8'],
    ...['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
    '--no-instructions',
  ]
  await runInitdb(runtime, draft, args, signal)
  rmSync(folder, { recursive: true, force: true })
  renameSync(draft, folder)
  log.debug({ folder, ms: Math.round(performance.now() - startedAt) }, 'created a Postgres cluster')
}

async function runInitdb(
  runtime: Runtime,
  cwd: string,
  args: string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const child = await spawnKept(runtime, cwd, runtime.binaries.initdb, args)
  const giveUp = () => child.stdin.end()
  signal?.addEventListener('abort', giveUp, { once: true })
  if (signal?.aborted) giveUp()
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  const [code, killedBy] = await once(child, 'close')
  signal?.removeEventListener('abort', giveUp)
  signal?.throwIfAborted()
  if (code === 0) return
  const how = killedBy ? `was killed by ${killedBy}` : `exited with ${code}`
  throw new DatabaseStartError('start_failed', `initdb ${how}: ${output.trim()}`)
}

/** The running postmaster's entry in postmaster.pid; null if the file is missing. */
export function readPostmaster(folder: string): { pid: number; socketDir: string } | null {
  try {
    const lines = readFileSync(join(folder, 'postmaster.pid'), 'utf8').split('\n')
    // A single-user backend writes its pid as a negative number.
    return { pid: Math.abs(Number(lines[0])), socketDir: lines[4] ?? '' }
  } catch {
    return null
  }
}

/** Whether a pid is a live postmaster of this folder, not a zombie or another process with a reused pid. */
export function isPostmasterOf(pid: number, folder: string): boolean {
  const facts = inspectProcess(pid)
  if (!facts?.running) return false
  return process.platform === 'linux' ? facts.cwd === folder : facts.commandLine.includes(folder)
}

/** No process ever has this pid: the largest is 4,194,304 on Linux and 99,999 on macOS. */
const UNUSED_PID = 2_147_483_646

/**
 * Prepares for a new postmaster: stops one that outlived a killed service, and invalidates the lock file of a dead one.
 * Postgres trusts a lock whose pid exists, and the pid of a killed postmaster exists if it is a zombie or was reused.
 * The rest of the lock file stays, because it shows Postgres the backends that are still alive.
 * @throws DatabaseStartError `data_folder_in_use` if the old postmaster survives SIGKILL for 10 s
 */
export async function evictPredecessor(folder: string, log: Logger): Promise<void> {
  const signals: [NodeJS.Signals, number][] = [
    ['SIGINT', 10_000], // fast shutdown: disconnects all clients, writes dirty pages
    ['SIGQUIT', 5_000], // immediate shutdown: the next start replays the WAL
    ['SIGKILL', 10_000],
  ]
  for (const [signal, waitMs] of signals) {
    const pid = readPostmaster(folder)?.pid
    if (pid === undefined) return
    if (!isPostmasterOf(pid, folder)) break
    log.warn({ postmaster: pid, signal }, 'stopping the Postgres that a killed service left')
    try {
      process.kill(pid, signal)
    } catch {}
    const deadline = Date.now() + waitMs
    while (isPostmasterOf(pid, folder) && Date.now() < deadline) await sleep(20)
  }
  const file = join(folder, 'postmaster.pid')
  const left = readPostmaster(folder)
  if (left === null) return
  if (isPostmasterOf(left.pid, folder)) {
    throw new DatabaseStartError(
      'data_folder_in_use',
      `Postgres (process ${left.pid}) holds ${folder} and does not stop.`,
    )
  }
  const lines = readFileSync(file, 'utf8').split('\n')
  writeFileSync(file, [UNUSED_PID, ...lines.slice(1)].join('\n'))
}
