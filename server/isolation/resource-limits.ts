import { release } from 'node:os'

/**
 * Limits that the kernel enforces for each process (`setrlimit`); children inherit them. Node cannot set them, so the
 * `ulimit` of `/bin/sh`, which every Unix has, sets them before the shell replaces itself with the program.
 */
export interface ResourceLimits {
  cpuSeconds?: number
  fileBytes?: number
  openFiles?: number
  /** Maximum number of processes and threads of the user or, in a sandbox, of the sandbox. The kernel exempts root. */
  processes?: number
  /** Address space of a process, in bytes. Node reserves far more than it uses, so it cannot have this limit. */
  addressSpaceBytes?: number
}

/**
 * Shell function that sets one limit, unless a lower one is in force. The option for processes is `-p` in dash and
 * BusyBox, `-u` in bash. POSIX counts file sizes in units of 512 bytes.
 */
const LIMIT_FUNCTION = `limit() {
  ulimit "$1" "$2" 2>/dev/null && return
  [ "$(ulimit "$1" 2>/dev/null)" -le "$2" ] 2>/dev/null && return
  [ "$1" = -p ] && limit -u "$2" && return
  echo "the limit $1 $2 cannot be set" >&2
  exit 126
}`

/**
 * Returns a command that sets the limits, switches core dumps off and is then replaced by `program`. The command exits
 * with status 126 if a limit cannot be set.
 */
export function limitedCommand(
  limits: ResourceLimits,
  [program, ...args]: readonly [string, ...string[]],
): [string, ...string[]] {
  const kib = (bytes: number) => Math.ceil(bytes / 1_024)
  const { cpuSeconds, fileBytes, openFiles, processes, addressSpaceBytes } = limits
  const options = [
    ['-c', 0],
    ['-t', cpuSeconds],
    ['-f', fileBytes === undefined ? undefined : Math.ceil(fileBytes / 512)],
    ['-n', openFiles],
    ['-v', addressSpaceBytes === undefined ? undefined : kib(addressSpaceBytes)],
    ['-p', processes],
  ] as const
  const set = options.flatMap(([option, value]) =>
    value === undefined ? [] : [`limit ${option} ${value}`],
  )
  const script = [LIMIT_FUNCTION, ...set, 'exec "$@"'].join('\n')
  return ['/bin/sh', '-c', script, 'sh', program, ...args]
}

/** From this Linux version on, the process limit counts a user's processes in each user namespace separately. */
export const COUNTS_IN_NAMESPACES: readonly [major: number, minor: number] = [5, 14]

export function kernelCountsInNamespaces(): boolean {
  const [major = 0, minor = 0] = release().split('.').map(Number)
  const [since, sinceMinor] = COUNTS_IN_NAMESPACES
  return major > since || (major === since && minor >= sinceMinor)
}
