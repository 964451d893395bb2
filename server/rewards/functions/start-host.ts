import { type ChildProcess, spawn } from 'node:child_process'
import type { Duplex, Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { CHANNEL_FD, MARKS_FD } from './protocol.ts'

const MAIN = fileURLToPath(new URL('./host-main.ts', import.meta.url))

/** Settings of child processes. */
export interface HostSettings {
  /** The whole environment of a child, without the service's variables, which hold secrets. */
  env: Record<string, string>
  /** Memory limit in addition to the memory of the fresh process. */
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
    // Node detects the module type from the text if no package.json sets it.
    '--disable-warning=MODULE_TYPELESS_PACKAGE_JSON',
    '--disable-warning=ExperimentalWarning',
    MAIN,
    `${settings.memoryBytes}`,
  ]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'],
    // A separate process group, so that the processes that a function starts are ended too.
    detached: true,
    env: settings.env as NodeJS.ProcessEnv,
  })
  // Without free file descriptors, Node creates no streams and emits `error` after this turn.
  const streams = (child.stdio ?? []) as unknown as (Duplex & Readable)[]
  return {
    child,
    channel: streams[CHANNEL_FD] as Duplex,
    marks: streams[MARKS_FD] as Readable,
  }
}

/** Kills a process and the processes that it started. */
export function endHost({ pid, exitCode, signalCode }: ChildProcess): void {
  // The id of an ended process may already belong to another process.
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // The process has ended already.
  }
}
