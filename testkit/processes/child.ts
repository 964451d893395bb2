import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'

/** How a child process ended. */
export interface ChildEnd {
  code: number | null
  signal: NodeJS.Signals | null
}

/** A started child process. */
export interface Child {
  pid: number
  process: ChildProcess
  /** Resolves when it has ended, for whatever reason; never rejects. */
  ended: Promise<ChildEnd>
  /** Sends SIGTERM and, when that does not end it in time, SIGKILL. */
  stop(graceMs?: number): Promise<ChildEnd>
}

const living = new Set<ChildProcess>()
// However this process ends, short of SIGKILL, no child outlives it.
process.on('exit', () => {
  for (const child of living) child.kill('SIGTERM')
})

/**
 * Starts a script under this very Node. The child gets a process group of its own: Ctrl-C in a terminal
 * reaches us alone, and it is we who end the children, once and in order.
 * @throws when it cannot be started at all.
 */
export async function startNode(
  script: string,
  args: readonly string[],
  options: {
    env?: Record<string, string | undefined>
    stdio: ['ignore' | 'pipe', number | 'pipe', number | 'inherit']
  },
): Promise<Child> {
  const child = spawn(process.execPath, [script, ...args], {
    stdio: options.stdio,
    env: { ...(options.env ?? process.env) } as NodeJS.ProcessEnv,
    detached: true,
  })
  living.add(child)
  const ended = new Promise<ChildEnd>((resolve) => {
    child.once('exit', (code, signal) => {
      living.delete(child)
      resolve({ code, signal })
    })
  })
  await once(child, 'spawn')
  return {
    pid: child.pid as number,
    process: child,
    ended,
    async stop(graceMs = 15_000) {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
      const patience = setTimeout(() => child.kill('SIGKILL'), graceMs)
      try {
        return await ended
      } finally {
        clearTimeout(patience)
      }
    },
  }
}
