import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  lutimes,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
} from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Isolation, SandboxNetwork } from '../contract/isolation.ts'
import { PID_SPACE, PROCESS_MARK, readMark } from '../process-host.ts'
import { processLives, sendKill } from '../process-signals.ts'
import { type Cgroups, findCgroups, removeLeftGroups } from './cgroups.ts'
import { freeFunctionUser } from './function-users.ts'
import { ProcessTree } from './process-tree.ts'
import { kernelCountsInNamespaces, limitedCommand } from './resource-limits.ts'
import { type SandboxBind, spawnSandboxed } from './sandbox.ts'
import { checkSandbox, type SandboxCheck } from './sandbox-check.ts'
import { systemProgram } from './system-program.ts'

/**
 * This machine's isolation of user-code processes, determined once at start. The object is plain data, so it can be
 * passed to threads.
 */
export interface IsolationPlan {
  level: Isolation
  network: SandboxNetwork
  /**
   * The user that a process runs as. `function`: a separate user (function-users.ts). `namespace`: the service's user,
   * in a user namespace without rights over the service's processes. `own`: the service's user.
   */
  user: 'function' | 'namespace' | 'own'
  /** Whether `setpriv` can prevent processes from gaining privileges. */
  noNewPrivileges: boolean
  /** Null if the limits of process trees are enforced by watching the trees. */
  cgroups: Cgroups | null
  /** Whether sandboxes are available; null at level `process`. */
  sandbox: SandboxCheck | null
  /** Missing protections of this machine: sentences for the log and the pages, each with its remedy. */
  missing: string[]
}

export interface PlanOptions {
  level: Isolation
  network: SandboxNetwork
  /** Files and folders that the processes must be able to read. Missing ones are ignored. */
  paths: readonly string[]
}

/** Maximum size of a process's temporary files, and of each file that it writes anywhere, in bytes. */
const MAX_DISK_BYTES = 1 << 30
/** Size of a sandbox's temporary folders, which are in memory, in bytes. */
const SANDBOX_TMP_BYTES = 256 << 20
/** Maximum number of processes and threads in a process tree. A Node process has about twelve threads. */
const MAX_PROCESSES = 256
/** Memory of a fresh Node process, which a tree may use in addition to its memory limit, in bytes. */
const FRESH_BYTES = 256 << 20

const UTIL_LINUX = 'Install util-linux (setpriv, unshare).'

/** Determines how this machine can isolate processes of user code. Takes about 30 ms. */
export async function planIsolation({
  level,
  network,
  paths,
}: PlanOptions): Promise<IsolationPlan> {
  const missing: string[] = []
  const isLinux = process.platform === 'linux'
  const noNewPrivileges = isLinux && (await succeeds('setpriv', ['--no-new-privs', 'true']))
  if (!noNewPrivileges) {
    missing.push(
      isLinux
        ? `Functions can gain privileges by set-user-id programs. ${UTIL_LINUX}`
        : `On ${process.platform}, functions have the rights of the service's user, and processes that they detach are not ended. Run the service on Linux to isolate functions.`,
    )
  }
  const user = isLinux ? await findUser(paths, missing) : 'own'
  const cgroups = isLinux ? findCgroups() : null
  if (cgroups !== null) await removeLeftGroups(cgroups).catch(() => {})
  removeLeftFolders()
  const plan = { level, network, user, noNewPrivileges, cgroups, missing }
  if (level === 'process') return { ...plan, sandbox: null }
  const binds = paths.filter((path) => existsSync(path)).map((from) => ({ from }))
  return {
    ...plan,
    sandbox: await checkSandbox({ network: networkOf(network), binds, ...userFor(plan) }),
  }
}

/**
 * Temporary folders are named by host, pid space and service process, because several machines and containers may share
 * the parent folder. A digest stands for the host name, because Linux limits the path of a socket in the folder to 107
 * bytes.
 */
export const FOLDER_PREFIX = `rewardops-function-${createHash('sha256').update(hostname()).digest('hex').slice(0, 8)}-`
/** Names of earlier versions have the host name itself, and no pid space. */
const EARLIER_FOLDER_PREFIX = `rewardops-function-${hostname()}-`
/**
 * Interval at which a running service renews the time of its folders, so that no other container or machine removes
 * them.
 */
const RENEW_FOLDER_MS = 3_600_000
const MAX_FOLDER_AGE_MS = 24 * RENEW_FOLDER_MS

function removeLeftFolders(): void {
  for (const name of readdirSync(tmpdir())) {
    const prefix = [FOLDER_PREFIX, EARLIER_FOLDER_PREFIX].find((one) => name.startsWith(one))
    if (prefix === undefined) continue
    const mark = readMark(name.slice(prefix.length))
    if (mark === null || !/^\w+$/.test(mark.rest)) continue
    const path = join(tmpdir(), name)
    try {
      if (isLeft(path, mark.space, mark.pid)) rmSync(path, { recursive: true, force: true })
    } catch {
      // The folder was removed meanwhile, or belongs to another user's service.
    }
  }
}

/** Whether no running service uses a folder. */
function isLeft(path: string, space: string | undefined, pid: number): boolean {
  if (space === PID_SPACE) return !processLives(pid)
  // Earlier versions do not renew their folders, so an old folder may still be in use.
  if (space === undefined && processLives(pid)) return false
  return Date.now() - lstatSync(path).mtimeMs > MAX_FOLDER_AGE_MS
}

async function findUser(
  paths: readonly string[],
  missing: string[],
): Promise<IsolationPlan['user']> {
  if (process.getuid?.() === 0) {
    const unreadable = await unreadableFor(freeFunctionUser(), [...paths, tmpdir()])
    if (unreadable === null) return 'function'
    missing.push(
      `Functions run as root, because other users cannot read ${unreadable}. Move it to a folder that all users can read, or start the service as a user other than root.`,
    )
    return 'own'
  }
  if (await succeeds('unshare', [...OWN_NAMESPACE, 'true'])) return 'namespace'
  missing.push(
    `Functions can read the memory and the environment of the service's processes, because this user cannot create user namespaces. ${UTIL_LINUX} Allow user namespaces (\`sysctl kernel.unprivileged_userns_clone=1\` on Debian, \`sysctl kernel.apparmor_restrict_unprivileged_userns=0\` on Ubuntu), or start the service as root, which gives each function process a user of its own.`,
  )
  return 'own'
}

/** Options of `unshare` for a user namespace in which the user keeps its id. */
const OWN_NAMESPACE = ['--user', '--map-current-user']

function succeeds(program: string, args: string[]): Promise<boolean> {
  const path = systemProgram(program)
  return new Promise((resolve) => {
    if (path === null) resolve(false)
    else execFile(path, args, { timeout: 10_000, env: NO_ENV }, (error) => resolve(error === null))
  })
}

const NO_ENV = { PATH: '/usr/bin:/bin' } as unknown as NodeJS.ProcessEnv

/** Resolves to the first of the existing paths that a user cannot read, or to null if the user can read all of them. */
function unreadableFor(
  user: { uid: number; gid: number },
  paths: readonly string[],
): Promise<string | null> {
  const there = paths.filter((path) => existsSync(path))
  const script = `for path; do
    if [ -d "$path" ]; then [ -x "$path" ]; else [ -r "$path" ]; fi || { echo "$path"; exit 1; }
  done`
  return new Promise((resolve) => {
    const options = { ...user, cwd: '/', env: NO_ENV, timeout: 10_000 }
    execFile('/bin/sh', ['-c', script, 'sh', ...there], options, (error, stdout) => {
      resolve(error === null ? null : stdout.trim() || there[0] || '/')
    })
  })
}

/** Lets the users that run functions enter a folder and its parent. Does nothing unless the service runs as root. */
export function openToFunctions(folder: string): void {
  if (process.getuid?.() !== 0) return
  for (const path of [folder, dirname(folder)]) {
    const { mode } = statSync(path)
    if ((mode & 0o011) !== 0o011) chmodSync(path, (mode & 0o7777) | 0o011)
  }
}

export function describePlan(
  plan: IsolationPlan,
): Pick<IsolationPlan, 'level' | 'missing'> & { how: string } {
  const users = {
    function: 'own user',
    namespace: 'own user namespace',
    own: 'the service’s user',
  }
  const { level, network, user, cgroups, sandbox } = plan
  const held = cgroups === null ? 'limits polled every 250 ms' : `cgroups v${cgroups.version}`
  const how =
    level === 'sandbox' ? `bubblewrap, network ${network}, ${held}` : `${users[user]}, ${held}`
  const missing = sandbox?.ok === false ? [`${sandbox.reason} ${sandbox.remedy}`] : plan.missing
  return { level, how, missing }
}

export interface IsolatedProgram {
  command: readonly [string, ...string[]]
  level: Isolation
  /** The complete environment; TMPDIR is added, and HOME in a sandbox or for a process with its own user. */
  env: Record<string, string>
  stdio: ('ignore' | 'pipe')[]
  /**
   * Memory limit in bytes, in addition to the memory of a fresh process. It applies to the process itself, and to the
   * process and its descendants together.
   */
  memoryBytes: number
  binds: readonly SandboxBind[]
  /** Path, inside a sandbox, of the folder that the process shares with the service. */
  folderInside: string
  /** Prepares the folder that the process shares with the service, before it starts. */
  prepare?: (folder: string, user: { uid: number; gid: number } | null) => void
  /** Called once, before the processes are killed because together they exceed a limit. */
  onOver: (detail: string) => void
}

export interface IsolatedProcess {
  /** If the process could not be started, it has no pid and emits `error`. */
  child: ChildProcess
  kill(): void
  /** Resolves when the process has ended, and the processes and files that it left behind are removed. */
  closed: Promise<void>
}

/**
 * Starts a program at a level of isolation. Processes and files that it leaves behind are removed when it ends.
 * @throws Error if the level is not available
 */
export function startIsolated(plan: IsolationPlan, program: IsolatedProgram): IsolatedProcess {
  const { level, stdio, memoryBytes, onOver } = program
  if (level === 'sandbox') {
    const problem = sandboxProblem(plan)
    if (problem !== null) throw new Error(problem)
  }
  const user = plan.user === 'function' ? freeFunctionUser() : null
  const folder = mkdtempSync(join(realpathSync(tmpdir()), `${FOLDER_PREFIX}${PROCESS_MARK}-`))
  if (user !== null) chownSync(folder, user.uid, user.gid)
  const limits = {
    memoryBytes: memoryBytes + FRESH_BYTES,
    processes: MAX_PROCESSES,
    diskBytes: MAX_DISK_BYTES,
  }
  let child: ChildProcess | undefined
  let tree: ProcessTree | null = null
  try {
    program.prepare?.(folder, user)
    child =
      level === 'sandbox'
        ? spawnSandboxed(program.command, {
            binds: [...program.binds, { from: folder, to: program.folderInside }],
            env: { ...program.env, TMPDIR: '/tmp', HOME: '/tmp' },
            tmpBytes: SANDBOX_TMP_BYTES,
            network: networkOf(plan.network),
            limits: { fileBytes: MAX_DISK_BYTES, processes: MAX_PROCESSES },
            stdio,
            ...(user === null ? {} : { user }),
          })
        : spawnSeparated(plan, program, user, folder)
    if (child.pid !== undefined) {
      const { cgroups } = plan
      const hasNamespace = level === 'sandbox' || plan.user === 'namespace'
      tree = new ProcessTree(child, { limits, cgroups, user, hasNamespace, folder, onOver })
    }
  } catch (error) {
    // A process without a tree would have no limits.
    if (child?.pid !== undefined) for (const id of [-child.pid, child.pid]) sendKill(id)
    throw error
  } finally {
    if (tree === null) rmSync(folder, { recursive: true, force: true })
  }
  if (tree === null) return { child, kill: () => {}, closed: Promise.resolve() }
  const own = tree
  const renewal = setInterval(() => {
    const now = new Date()
    lutimes(folder, now, now, () => {})
  }, RENEW_FOLDER_MS).unref()
  const closed = new Promise<void>((resolve) =>
    child.once('exit', () => {
      clearInterval(renewal)
      void own.close().then(resolve)
    }),
  )
  return { child, kill: () => own.kill(), closed }
}

export function sandboxProblem({ sandbox }: IsolationPlan): string | null {
  if (sandbox === null) {
    return 'The function was accepted at level sandbox, and this process is at level process: set REWARDOPS_FUNCTION_ISOLATION to the same value everywhere.'
  }
  return sandbox.ok ? null : `${sandbox.reason} ${sandbox.remedy}`
}

function spawnSeparated(
  { user: kind, noNewPrivileges }: IsolationPlan,
  { command, env, stdio }: IsolatedProgram,
  user: { uid: number; gid: number } | null,
  folder: string,
): ChildProcess {
  const isCounted = user !== null || (kind === 'namespace' && kernelCountsInNamespaces())
  const limits = {
    fileBytes: MAX_DISK_BYTES,
    ...(isCounted ? { processes: MAX_PROCESSES } : {}),
  }
  const [file, ...args] = [
    ...(noNewPrivileges ? [systemProgram('setpriv') as string, '--no-new-privs'] : []),
    ...(kind === 'namespace' ? [systemProgram('unshare') as string, ...OWN_NAMESPACE] : []),
    ...limitedCommand(limits, command),
  ] as [string, ...string[]]
  return spawn(file, args, {
    stdio,
    // A separate session and process group, so that all processes that a function starts are killed too and together
    // get no larger share of the processors than one process.
    detached: true,
    env: {
      ...env,
      TMPDIR: folder,
      ...(user === null ? {} : { HOME: folder }),
    } as unknown as NodeJS.ProcessEnv,
    ...user,
  })
}

const networkOf = (network: SandboxNetwork) => (network === 'open' ? 'open' : 'none')

function userFor({ user }: Pick<IsolationPlan, 'user'>) {
  return user === 'function' ? { user: freeFunctionUser() } : {}
}
