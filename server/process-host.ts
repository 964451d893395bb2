import { readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { readProcFile } from './process-signals.ts'

/** Empty on systems other than Linux. */
const BOOT = readProcFile('/proc/sys/kernel/random/boot_id')?.slice(0, 8) ?? ''

/**
 * Identifies the numbering of processes that this process sees: the boot of the machine, and the pid namespace.
 * Containers with equal host names number their processes separately.
 */
export const PID_SPACE = `${BOOT}.${pidNamespace()}`

/** The host of this process, as the table `process` stores it. Pages show the part before the `#`. */
export const PROCESS_HOST = `${hostname()}#${PID_SPACE}`

/** Whether a pid space belongs to the present boot of this machine. */
export function isOfThisBoot(space: string): boolean {
  return space.startsWith(`${BOOT}.`)
}

/**
 * Whether a process belongs to a container of this machine with this host name, but not to this process's container. It
 * is usually an earlier run of this container.
 */
export function isOfTwinContainer(host: string): boolean {
  return host !== PROCESS_HOST && host.startsWith(`${hostname()}#${BOOT}.`)
}

function pidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? ''
  } catch {
    return ''
  }
}
