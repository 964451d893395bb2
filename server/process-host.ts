import { createHash } from 'node:crypto'
import { readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { readProcFile } from './process-signals.ts'

/** A part of the boot id, which changes whenever the machine starts. Empty on systems other than Linux. */
const BOOT = readProcFile('/proc/sys/kernel/random/boot_id')?.slice(0, 8) ?? ''

/**
 * Identifies the numbering of processes that this process sees: the boot of the machine, and a digest of the pid
 * namespace. Containers with equal host names number their processes separately.
 */
export const PID_SPACE = `${BOOT}.${pidNamespace()}`

/** Distinguishes the folders and control groups of this process from those of other processes and containers. */
export const PROCESS_MARK = `${PID_SPACE}-${process.pid}`

/**
 * Reads a name that begins with a {@link PROCESS_MARK} and a hyphen. Returns null for any other name. Marks of earlier
 * versions have no pid space.
 */
export function readMark(
  name: string,
): { space: string | undefined; pid: number; rest: string } | null {
  const [, space, pid, rest] = /^(?:([\da-f]*\.[\da-f]*)-)?(\d+)-(.*)$/.exec(name) ?? []
  return pid === undefined || rest === undefined ? null : { space, pid: Number(pid), rest }
}

/** The host of this process, as the table `process` stores it. Pages show the part before the `#`. */
export const PROCESS_HOST = `${hostname()}#${PID_SPACE}`

/** Whether a host has the same pid space as this process. The host's name may have changed. */
export function hasThisPidSpace(host: string): boolean {
  return host.endsWith(`#${PID_SPACE}`)
}

/**
 * Whether a process belongs to a container of this machine with this host name, but not to this process's container.
 * Such a process usually belongs to an earlier run of this container.
 */
export function isOfTwinContainer(host: string): boolean {
  return host !== PROCESS_HOST && host.startsWith(`${hostname()}#${BOOT}.`)
}

/**
 * A digest that identifies the pid namespace. The number of a namespace does not suffice, because the kernel reuses it:
 * a restarted container may get the number and the pids of its earlier run. The start time of the first process
 * distinguishes the two runs.
 */
function pidNamespace(): string {
  const namespace = `${namespaceNumber()} ${startOfFirstProcess()}`
  if (namespace === ' ') return ''
  return createHash('sha256').update(namespace).digest('hex').slice(0, 8)
}

function namespaceNumber(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? ''
  } catch {
    return ''
  }
}

/** Field 22 of proc_pid_stat(5), in clock ticks since the boot. */
function startOfFirstProcess(): string {
  // The name in field 2 may contain spaces and parentheses.
  const fields = readProcFile('/proc/1/stat')?.split(') ').at(-1)?.split(' ')
  return fields?.[22 - 3] ?? ''
}
