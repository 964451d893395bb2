import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { lstatSync, readlinkSync } from 'node:fs'
import type { Writable } from 'node:stream'
import { limitedCommand, type ResourceLimits } from './resource-limits.ts'
import { isFilteredArch, seccompFilter } from './seccomp.ts'
import { systemProgram } from './system-program.ts'

/**
 * Runs a program under bubblewrap (https://github.com/containers/bubblewrap): in its own namespaces (processes, mounts,
 * network, IPC, host name), without capabilities and with a seccomp filter. It sees the system's programs and
 * libraries, the given folders, all read-only, and its own /tmp, /proc and /dev. When the first process of the sandbox
 * ends, the kernel kills all others. The first process ends with the thread that started it.
 */

/**
 * A file or folder of the machine that a sandbox can read. The sandbox can also connect to Unix sockets in the folder.
 */
export interface SandboxBind {
  /** Absolute path on the machine. */
  from: string
  /** Absolute path inside the sandbox. Default: `from`. */
  to?: string
}

export interface SandboxOptions {
  binds: readonly SandboxBind[]
  env: Record<string, string>
  /** Absolute path inside the sandbox. Default: /tmp. */
  cwd?: string
  /** Size of each of the two writable folders, /tmp and /dev/shm, which are in memory and start empty. */
  tmpBytes: number
  /** `none`: only a private loopback interface. `open`: the machine's network, with all its loopback ports. */
  network: 'none' | 'open'
  limits: ResourceLimits
  /** The user and group to run as. Only root can choose others. Default: those of this process. */
  user?: { uid: number; gid: number }
  /**
   * The seccomp filter for the sandboxes that the program itself starts. The program needs system calls that the filter
   * denies, so bubblewrap does not load the filter. Instead, the program reads this filter from the descriptor after
   * the last one of `stdio`.
   */
  filterForChildren?: Buffer
  /** As for `spawn`, with at least three entries. Further descriptors keep their index in the sandbox. */
  stdio: Exclude<SpawnOptions['stdio'], string | undefined>
}

/**
 * Folders of programs and libraries. If /bin or another folder links into /usr, it is a link inside the sandbox too.
 */
const SYSTEM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store']
/** Files that the dynamic linker, TLS and clocks need. None of them holds secrets. */
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
const NETWORK_FILES = ['/etc/resolv.conf', '/etc/hosts', '/etc/nsswitch.conf']

/**
 * Starts a program in a sandbox. If a signal ends the program, the exit code is 128 + signal. Killing the returned
 * process ends everything in the sandbox. `checkSandbox` reports why sandboxes are not available.
 * @throws Error if bubblewrap is missing, or if there is no filter for the architecture
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
    // Bubblewrap passes its environment on. If the values were arguments, all users could read them.
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
    // /dev and / are folders in memory without a size limit, so they are made read-only.
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
