import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { CHANNEL_FD, MARKS_FD } from './protocol.ts'

const MAIN = fileURLToPath(new URL('./host-main.ts', import.meta.url))

/** Settings of child processes. */
export interface HostSettings {
  /** The whole environment of a child, without the service's variables, which hold secrets. */
  env: Record<string, string>
  /** Memory limit, above the memory of the fresh process. */
  memoryBytes: number
}

/**
 * A child process that runs user code, with its channel and its pipe of marks; both are undefined if it could not be
 * started.
 */
export interface StartedHost {
  child: ChildProcess
  channel: Duplex
  marks: Readable
}

/**
 * Starts a process for user code. It uses Node's `spawn` because pool libraries do not fit: workerpool gives each
 * process one task at a time, so 5,000 rewards that wait 40 s would need 5,000 processes. tinypool runs tasks
 * concurrently, but stops a task by ending its process with all other tasks, checks only the heap (without buffers)
 * after a task, and does not report which task was at fault.
 */
export function startHost(settings: HostSettings): StartedHost {
  const heapMb = Math.max(64, Math.round(settings.memoryBytes / 2 ** 20))
  const args = [
    `--max-old-space-size=${heapMb}`,
    // The module type is detected from the text where no package.json sets it.
    '--disable-warning=MODULE_TYPELESS_PACKAGE_JSON',
    '--disable-warning=ExperimentalWarning',
    MAIN,
    `${settings.memoryBytes}`,
  ]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    // A separate process group, so that processes started by a function are ended with it.
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

/** Ends a process and the processes it started, at once. */
export function endHost({ pid, exitCode, signalCode }: ChildProcess): void {
  // The process id may already belong to another process.
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The process has ended already.
  }
}
