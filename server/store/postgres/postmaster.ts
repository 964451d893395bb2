import { setTimeout as sleep } from 'node:timers/promises'
import { isPostmasterOf, readPostmaster } from './cluster.ts'
import type { PostgresLog } from './log-lines.ts'
import { type Runtime, spawnKept } from './runtime.ts'

export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface Postmaster {
  pid: number
  exited: Promise<Exit>
  /** Disconnects all clients and shuts down: SIGINT, after 10 s SIGQUIT, after 5 s more SIGKILL. */
  stop(): Promise<void>
}

/** Thrown if Postgres exits before it is ready. */
export class LaunchFailure extends Error {
  /** Whether a retry may soon succeed, because processes of a killed predecessor are still ending. */
  readonly passing: boolean

  constructor(exit: Exit, output: string[]) {
    const how = exit.signal ? `was killed by ${exit.signal}` : `exited with ${exit.code}`
    super(`Postgres ${how} while starting:\n  ${output.slice(-12).join('\n  ')}`)
    this.name = 'LaunchFailure'
    this.passing = output.some((line) =>
      /pre-existing shared memory block|lock file ".*" already exists/.test(line),
    )
  }
}

/**
 * Starts Postgres on a data directory and waits until it accepts connections, however long the replay of its WAL takes.
 * @throws LaunchFailure if Postgres exits before it is ready, the signal's reason if it aborts (after Postgres has
 * exited), or DatabaseStartError if Postgres cannot be started
 */
export async function launch(
  folder: string,
  runtime: Runtime,
  settings: string[],
  log: PostgresLog,
  signal?: AbortSignal,
): Promise<Postmaster> {
  const args = ['-D', runtime.dataArgument(folder), '-k', runtime.socketDir, ...settings]
  const keeper = await spawnKept(runtime, folder, runtime.binaries.postgres, args)
  const exited = new Promise<Exit>((resolve) => {
    keeper.once('exit', (code, signal) => resolve({ code, signal }))
  })

  const output: string[] = []
  const ready = new Promise<'ready'>((resolve) => {
    keeper.stderr.setEncoding('utf8').on('data', (piece: string) => {
      for (const line of log.write(piece)) {
        if (output.length < 200) output.push(line)
        if (line.includes('database system is ready to accept connections')) resolve('ready')
      }
    })
  })
  // Closing the pipe shuts Postgres down, even while it starts.
  const giveUp = () => keeper.stdin.end()
  signal?.addEventListener('abort', giveUp, { once: true })
  if (signal?.aborted) giveUp()
  const first = await Promise.race([ready, exited])
  signal?.removeEventListener('abort', giveUp)
  if (first !== 'ready') signal?.throwIfAborted()
  if (first !== 'ready') {
    // Postgres's last lines may still be in the pipe, which its children can hold open.
    await Promise.race([new Promise((resolve) => keeper.once('close', resolve)), sleep(500)])
    throw new LaunchFailure(first, output)
  }
  const pid = readPostmaster(folder)?.pid ?? 0

  // These handles must not keep this process alive.
  const handles = [keeper, keeper.stdin, keeper.stderr] as unknown as {
    ref(): void
    unref(): void
  }[]
  for (const handle of handles) handle.unref()

  const stop = async () => {
    keeper.ref()
    keeper.stdin.end()
    const signals: [number, NodeJS.Signals][] = [
      [10_000, 'SIGQUIT'],
      [5_000, 'SIGKILL'],
    ]
    for (const [afterMs, signal] of signals) {
      const patience = new AbortController()
      const late = sleep(afterMs, 'late', { signal: patience.signal }).catch(() => 'gone')
      const outcome = await Promise.race([exited, late])
      patience.abort()
      if (outcome !== 'late') return
      if (isPostmasterOf(pid, folder)) process.kill(pid, signal)
    }
    await exited
  }
  return { pid, exited, stop }
}
