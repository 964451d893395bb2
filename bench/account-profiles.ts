import { once } from 'node:events'
import type { Profiler } from 'node:inspector'
import { createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath, pathToFileURL } from 'node:url'

const INTERVAL_US = 500

export interface ThreadProfile {
  pid: number
  isMainThread: boolean
  profile: Profiler.Profile
}

interface Thread {
  socket: Socket
  pid: number
  isMainThread: boolean
  received: (message: { started?: true; profile?: Profiler.Profile | null }) => void
}

/** Profiles the CPU time of every thread of the Node processes that are started with `env`. */
export class Profilers {
  readonly #path: string
  readonly #server: Server
  readonly #threads = new Set<Thread>()
  #isProfiling = false

  private constructor(path: string, server: Server) {
    this.#path = path
    this.#server = server
    server.on('connection', (socket) => this.#accept(socket))
  }

  static async listen(path: string): Promise<Profilers> {
    const server = createServer()
    server.listen(path)
    await once(server, 'listening')
    return new Profilers(path, server)
  }

  get env(): Record<string, string> {
    const script = fileURLToPath(new URL('./account-profiler.ts', import.meta.url))
    return {
      NODE_OPTIONS:
        `${process.env.NODE_OPTIONS ?? ''} --import ${pathToFileURL(script).href}`.trim(),
      ACCOUNT_PROFILER_SOCKET: this.#path,
    }
  }

  get threads(): number {
    return this.#threads.size
  }

  async start(): Promise<void> {
    this.#isProfiling = true
    await Promise.all([...this.#threads].map((thread) => ask(thread, 'start')))
  }

  async stop(): Promise<ThreadProfile[]> {
    this.#isProfiling = false
    const profiles = await Promise.all(
      [...this.#threads].map(async (thread) => {
        const { profile } = await ask(thread, 'stop')
        return profile ? { pid: thread.pid, isMainThread: thread.isMainThread, profile } : null
      }),
    )
    return profiles.filter((profile) => profile !== null)
  }

  close(): void {
    this.#server.close()
    for (const { socket } of this.#threads) socket.destroy()
  }

  #accept(socket: Socket): void {
    let thread: Thread | undefined
    const lines = createInterface({ input: socket })
    lines.on('error', () => {})
    lines.on('line', (line) => {
      const message = JSON.parse(line)
      if (thread !== undefined) return thread.received(message)
      thread = { socket, ...message, received: () => {} } as Thread
      this.#threads.add(thread)
      // A thread that starts during a batch is profiled from its start.
      if (this.#isProfiling) void ask(thread, 'start')
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      if (thread === undefined) return
      this.#threads.delete(thread)
      thread.received({})
    })
  }
}

function ask(
  thread: Thread,
  command: 'start' | 'stop',
): Promise<{ profile?: Profiler.Profile | null }> {
  return new Promise((resolve) => {
    thread.received = resolve
    thread.socket.write(`${JSON.stringify({ command, intervalUs: INTERVAL_US })}\n`)
  })
}
