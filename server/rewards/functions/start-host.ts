import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { CHANNEL_FD, MARKS_FD } from './protocol.ts'

const MAIN = fileURLToPath(new URL('./host-main.ts', import.meta.url))

/** How child processes run. */
export interface HostSettings {
  /** The whole environment of a child: none of the service's own, which has its secrets. */
  env: Record<string, string>
  /** What a process may take above what it has when it is fresh. */
  memoryBytes: number
}

/** A child process that runs user code, with its channel and the pipe of its marks; both are undefined when it was not started. */
export interface StartedHost {
  child: ChildProcess
  channel: Duplex
  marks: Readable
}

/**
 * Starts a process for user code. With Node's own `spawn`, not over a pool library: workerpool gives each process one
 * task at a time, and 5,000 rewards that wait 40 s would be 5,000 processes; tinypool runs several side by side but ends
 * the process, and with it every task in it, to stop one, looks at the heap only, after a task, where buffers are
 * not in it, and does not tell which task was at fault.
 */
export function startHost(settings: HostSettings): StartedHost {
  const heapMb = Math.max(64, Math.round(settings.memoryBytes / 2 ** 20))
  const args = [
    `--max-old-space-size=${heapMb}`,
    // What a module is, is found out from its text where no package.json says so.
    '--disable-warning=MODULE_TYPELESS_PACKAGE_JSON',
    '--disable-warning=ExperimentalWarning',
    MAIN,
    `${settings.memoryBytes}`,
  ]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    // A group of its own: what a function started is ended with it.
    detached: true,
    env: settings.env as NodeJS.ProcessEnv,
  })
  const streams = child.stdio as unknown as (Duplex & Readable)[]
  return {
    child,
    channel: streams[CHANNEL_FD] as Duplex,
    marks: streams[MARKS_FD] as Readable,
  }
}

/** Ends a process and what it started, at once. */
export function endHost({ pid, exitCode, signalCode }: ChildProcess): void {
  // Nobody's any more, or soon another's.
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Gone already.
  }
}
