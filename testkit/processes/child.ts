import { type ChildProcess, type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'

export interface ChildEnd {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface Child {
  pid: number
  process: ChildProcess
  /** Resolves when the process has ended; never rejects. */
  ended: Promise<ChildEnd>
  /** Sends SIGTERM, and SIGKILL if the process still runs after `graceMs`. */
  stop(graceMs?: number): Promise<ChildEnd>
}

/** Node options and environment that stop a child when its parent ends. Descriptor 3 must be a pipe to the parent. */
export const EXIT_WITH_PARENT: { options: string[]; env: Record<string, string> } = {
  options: ['--import', new URL('../../scripts/exit-with-parent.mjs', import.meta.url).href],
  env: { EXIT_WITH_PARENT_FD: '3' },
}

const living = new Set<ChildProcess>()
// SIGTERM stops the children when this process exits. If SIGKILL ends this process, the pipe stops them.
process.on('exit', () => {
  for (const child of living) child.kill('SIGTERM')
})

/**
 * Starts a script with this process's Node. The child has its own process group, so Ctrl-C in a terminal reaches only
 * the parent, which stops its children. The child stops when this process ends for any reason.
 * @throws when the process cannot be started.
 */
export async function startNode(
  script: string,
  args: readonly string[],
  options: {
    env?: Record<string, string | undefined>
    stdio: ['ignore' | 'pipe', number | 'pipe', number | 'inherit']
  },
): Promise<Child> {
  const child = spawn(process.execPath, [...EXIT_WITH_PARENT.options, script, ...args], {
    stdio: [...options.stdio, 'pipe'],
    env: { ...(options.env ?? process.env), ...EXIT_WITH_PARENT.env } as NodeJS.ProcessEnv,
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

/** Runs the text of an ES module with this process's Node until it exits. The process may open at most 128 files. */
export function runWithFewFiles(
  script: string,
  args: readonly string[] = [],
): SpawnSyncReturns<string> {
  const options = ['--input-type=module', '--eval', script]
  return spawnSync(
    'sh',
    ['-c', 'ulimit -n 128; exec "$0" "$@"', process.execPath, ...options, ...args],
    {
      encoding: 'utf8',
      // With NODE_EXTRA_CA_CERTS, Node itself warns on stderr that it cannot read the certificates.
      env: { ...process.env, NODE_EXTRA_CA_CERTS: undefined },
    },
  )
}
