import { connect, createServer, type Server, type Socket } from 'node:net'

/**
 * The mode of a link:
 * - `pass`: forwards
 * - `refuse`: resets open and new connections
 * - `hold`: keeps connections open and forwards nothing; `hold-up` and `hold-down` hold one direction
 * - `delay`: forwards each chunk after `delayMs`, in order
 */
export type LinkMode = 'pass' | 'refuse' | 'hold' | 'hold-up' | 'hold-down' | 'delay'

interface Pair {
  client: Socket
  upstream: Socket
}

/** A link between two processes: a TCP proxy that can reset connections and hold or delay their bytes. */
export class TcpProxy {
  readonly #server: Server
  readonly #pairs = new Set<Pair>()
  #mode: LinkMode = 'pass'
  #delayMs = 0
  /** Target of new connections. It may change, for example to a promoted standby. */
  targetPort: number

  private constructor(targetPort: number) {
    this.targetPort = targetPort
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#accept(client))
  }

  static async start(targetPort: number, port = 0): Promise<TcpProxy> {
    const proxy = new TcpProxy(targetPort)
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once('error', reject)
      proxy.#server.listen(port, '127.0.0.1', resolve)
    })
    return proxy
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port
  }

  set(mode: LinkMode, delayMs = 0): void {
    this.#mode = mode
    this.#delayMs = delayMs
    if (mode === 'refuse') this.cut()
    else for (const pair of this.#pairs) this.#apply(pair)
  }

  cut(): void {
    for (const { client, upstream } of this.#pairs) {
      client.resetAndDestroy()
      upstream.resetAndDestroy()
    }
    this.#pairs.clear()
  }

  async close(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #accept(client: Socket): void {
    client.on('error', () => {})
    if (this.#mode === 'refuse') {
      client.resetAndDestroy()
      return
    }
    const upstream = connect({ port: this.targetPort, host: '127.0.0.1', allowHalfOpen: true })
    upstream.on('error', () => {})
    const pair = { client, upstream }
    this.#pairs.add(pair)
    for (const socket of [client, upstream]) socket.setNoDelay(true)
    this.#forward(client, upstream)
    this.#forward(upstream, client)
    const end = () => {
      // A dying process closes its sockets immediately. On a held link, the other side sees the close only after the
      // link is released.
      if (this.#mode === 'hold') return
      this.#pairs.delete(pair)
      client.destroy()
      upstream.destroy()
    }
    client.on('close', end)
    upstream.on('close', end)
    this.#apply(pair)
  }

  #forward(from: Socket, to: Socket): void {
    // The chunks share one queue and one timer, so that later bytes cannot overtake delayed ones when the delay ends.
    const waiting: { dueMs: number; work: () => void }[] = []
    const drain = () => {
      while (waiting[0] !== undefined && waiting[0].dueMs <= performance.now()) {
        waiting.shift()?.work()
      }
      const [next] = waiting
      if (next !== undefined) setTimeout(drain, Math.max(1, next.dueMs - performance.now()))
    }
    const send = (work: () => void) => {
      if (this.#mode !== 'delay' && waiting.length === 0) return work()
      const dueMs = Math.max(performance.now() + this.#delayMs, waiting.at(-1)?.dueMs ?? 0)
      waiting.push({ dueMs, work })
      if (waiting.length === 1) setTimeout(drain, Math.max(1, dueMs - performance.now()))
    }
    from.on('data', (piece: Buffer) =>
      send(() => {
        if (!to.destroyed && !to.write(piece)) {
          from.pause()
          to.once('drain', () => this.#resume(from))
        }
      }),
    )
    from.on('end', () => send(() => to.end()))
  }

  #resume(socket: Socket): void {
    if (this.#mode === 'pass' || this.#mode === 'delay') socket.resume()
    else for (const pair of this.#pairs) this.#apply(pair)
  }

  #apply({ client, upstream }: Pair): void {
    const holds = this.#mode
    if (holds === 'hold' || holds === 'hold-up') client.pause()
    else client.resume()
    if (holds === 'hold' || holds === 'hold-down') upstream.pause()
    else upstream.resume()
    if (holds === 'pass') {
      if (client.destroyed) upstream.destroy()
      if (upstream.destroyed) client.destroy()
    }
  }
}
