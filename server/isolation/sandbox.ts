import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { lstatSync, readlinkSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { limitedCommand, type ResourceLimits } from './resource-limits.ts'
import { isFilteredArch, seccompFilter } from './seccomp.ts'
import { systemProgram } from './system-program.ts'

/**
 * Runs a program under bubblewrap (https://github.com/containers/bubblewrap): with process ids, mounts, network, IPC
 * and host name of its own, without capabilities, under a seccomp filter. It sees the system's programs and libraries,
 * the given folders, all read-only, and its own /tmp, /proc and /dev. The kernel ends all processes in it when its
 * first process ends, and that one ends with the thread that started it.
 */

/** A file or folder of the machine that a sandbox can read. A Unix socket in it can be connected to. */
export interface SandboxBind {
  /** Absolute path on the machine. */
  from: string
  /** Absolute path inside. Default: `from`. */
  to?: string
}

/** The contents and limits of a sandbox. */
export interface SandboxOptions {
  binds: readonly SandboxBind[]
  /** The program's complete environment. */
  env: Record<string, string>
  /** Absolute path inside. Default: /tmp. */
  cwd?: string
  /** Size of each of its two writable folders, /tmp and /dev/shm. They are in memory and start empty. */
  tmpBytes: number
  /** `none`: only a loopback interface of its own. `open`: the machine's network, with all its loopback ports. */
  network: 'none' | 'open'
  limits: ResourceLimits
  /** The user and group to run as. Only root can name others than its own. Default: those of this process. */
  user?: { uid: number; gid: number }
  /**
   * A filter of system calls for a program that starts further sandboxes itself and so needs calls that the filter
   * denies. Bubblewrap does not load it; the program reads it from the descriptor after the last of `stdio`.
   */
  filterForChildren?: Buffer
  /** As of `spawn`, at least the first three. Descriptors above are passed on under their index. */
  stdio: Exclude<SpawnOptions['stdio'], string | undefined>
}

/** Folders of programs and libraries. Where /bin and its like are links into /usr, they are links inside too. */
const SYSTEM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store']
/** Files that the dynamic linker, TLS and clocks need; no file that holds secrets. */
const SYSTEM_FILES = [
  '/etc/alternatives',
  '/etc/ld.so.cache',
  '/etc/localtime',
  '/etc/ssl/certs',
  '/etc/ssl/openssl.cnf',
  '/etc/pki/tls/certs',
  '/etc/pki/ca-trust/extracted',
  '/etc/ca-certificates',
]
/** Files that look up names of hosts. */
const NETWORK_FILES = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf']

/**
 * Starts a program in a sandbox. A program that a signal ended is reported with the exit code 128 + signal; killing the
 * returned process ends everything in the sandbox. `sandbox-check.ts` says why a sandbox cannot be had.
 * @throws Error without bubblewrap or on an architecture without a filter
 */
export function spawnSandboxed(
  command: readonly [string, ...string[]],
  options: SandboxOptions,
): ChildProcess {
  const bubblewrap = systemProgram('bwrap')
  if (bubblewrap === null) throw new Error('bubblewrap is not installed')
  if (!isFilteredArch(process.arch)) throw new Error(`there is no filter for ${process.arch}`)
  const filterFd = options.stdio.length
  const child = spawn(bubblewrap, bubblewrapArguments(command, options, filterFd), {
    // Bubblewrap passes its environment on. As arguments, the values could be read by all users.
    env: options.env as NodeJS.ProcessEnv,
    cwd: '/',
    stdio: [...options.stdio, 'pipe'],
    ...options.user,
  })
  const pipe = child.stdio?.[filterFd] as Writable | undefined
  // Bubblewrap may end before it reads the filter; its exit code and output say why.
  pipe?.on('error', () => {})
  pipe?.end(options.filterForChildren ?? seccompFilter(process.arch))
  return child
}

/** The arguments of bubblewrap 0.7 or newer. `filterFd`: the descriptor from which it reads the seccomp filter. */
export function bubblewrapArguments(
  command: readonly [string, ...string[]],
  options: Omit<SandboxOptions, 'env' | 'stdio'>,
  filterFd: number,
): string[] {
  const { binds, cwd = '/tmp', tmpBytes, network, limits, filterForChildren } = options
  const size = ['--size', String(Math.ceil(tmpBytes))]
  return [
    ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts'],
    '--unshare-cgroup-try',
    ...(network === 'none' ? ['--unshare-net'] : []),
    ...['--die-with-parent', '--new-session', '--cap-drop', 'ALL'],
    ...['--hostname', 'sandbox'],
    ...(filterForChildren === undefined ? ['--seccomp', String(filterFd)] : []),
    ...SYSTEM_FOLDERS.flatMap(systemFolder),
    ...[...SYSTEM_FILES, ...(network === 'open' ? NETWORK_FILES : [])].flatMap((path) => [
      ...['--ro-bind-try', path, path],
    ]),
    ...['--proc', '/proc', '--dev', '/dev'],
    ...[...size, '--tmpfs', '/dev/shm'],
    ...[...size, '--tmpfs', '/tmp'],
    ...binds.flatMap(({ from, to = from }) => ['--ro-bind', from, to]),
    // Both are folders in memory without a limit of their size.
    ...['--remount-ro', '/dev', '--remount-ro', '/'],
    ...['--chdir', cwd],
    ...['--', ...limitedCommand(limits, command)],
  ]
}

function systemFolder(path: string): string[] {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found === undefined) return []
  return found.isSymbolicLink()
    ? ['--symlink', readlinkSync(path), path]
    : ['--ro-bind', path, path]
}
