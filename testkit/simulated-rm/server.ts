import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { z } from 'zod'
import { Call, json } from './call.ts'
import { type Clock, systemClock } from './clock.ts'
import type { Dialect, Handler } from './dialects/dialect.ts'
import { dialectOf } from './dialects/registry.ts'
import type { ServerCounters, ServerStats } from './ledger.ts'
import {
  ControlChange,
  type ControlChangeInput,
  ServerOptions,
  type ServerOptionsInput,
  type ServerSettings,
} from './options.ts'
import { Simulation } from './simulation.ts'

export const WHAT_IT_IS =
  'simulated reward-model server: speaks the protocol, follows a capacity model, no neural network'

const BODY_LIMIT_BYTES = 64 << 20

interface Place {
  idle: NodeJS.Timeout | undefined
  idleMs: number | null
  calls: Set<Call>
}

/** A simulated reward-model server: a real HTTP server with a modeled engine. */
export class SimulatedServer {
  readonly dialect: Dialect
  readonly model: string
  readonly #simulation: Simulation
  readonly #host: string
  #routes: Record<string, Handler>
  #paths: Set<string>
  #port: number
  #server: Server | null = null
  readonly #sockets = new Map<Socket, Place>()
  #timers = new Set<NodeJS.Timeout>()
  #closed = false

  /** @throws ZodError for unknown options. */
  constructor(options: ServerOptionsInput = {}, clock: Clock = systemClock) {
    const { faults, ...given } = ServerOptions.parse(options)
    this.dialect = dialectOf(given.dialect)
    const { defaults } = this.dialect
    const settings: ServerSettings = {
      ...given,
      serves: given.serves ?? defaults.serves,
      version: given.version ?? defaults.version,
      running: given.running ?? defaults.running,
      idleCloseMs: given.idleCloseMs === undefined ? defaults.idleCloseMs : given.idleCloseMs,
      healthDelayMs: given.healthDelayMs ?? defaults.healthDelayMs,
      hasChatTemplate: given.hasChatTemplate ?? (given.serves ?? defaults.serves) !== 'pair',
      autoTruncate: given.autoTruncate ?? defaults.autoTruncate,
    }
    this.model = settings.model
    this.#host = settings.host
    this.#port = settings.port
    this.#simulation = new Simulation(settings, this.dialect, clock)
    this.#simulation.faults = faults ?? {}
    this.#simulation.crash = () => this.#stopListening()
    this.#routes = this.dialect.routes(this.#simulation)
    this.#paths = new Set(Object.keys(this.#routes).map((route) => route.split(' ')[1] as string))
  }

  static async start(options: ServerOptionsInput = {}): Promise<SimulatedServer> {
    const server = new SimulatedServer(options)
    await server.start()
    return server
  }

  get url(): string {
    const host = this.#host.includes(':') ? `[${this.#host}]` : this.#host
    return `http://${host}:${this.#port}`
  }

  get port(): number {
    return this.#port
  }

  /** Starts listening. After a death, it listens on the same port, like a new process with the same settings. */
  async start(): Promise<void> {
    if (this.#server !== null) return
    const server = createServer((request, response) => this.#take(request, response))
    this.#server = server
    // Timers of this class close idle connections, because Node would announce its timeout in every answer, which
    // uvicorn does not.
    server.keepAliveTimeout = 0
    server.on('connection', (socket) => {
      this.#sockets.set(socket, { idle: undefined, idleMs: null, calls: new Set() })
      socket.on('close', () => {
        clearTimeout(this.#sockets.get(socket)?.idle)
        this.#sockets.delete(socket)
      })
      this.#idleSoon(socket)
    })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      // The backlog is large, because a step's texts may arrive as thousands of concurrent connections.
      server.listen({ port: this.#port, host: this.#host, backlog: 16_384 }, () => {
        server.off('error', reject)
        this.#port = (server.address() as AddressInfo).port
        resolve()
      })
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const timer of this.#timers) clearTimeout(timer)
    await this.#stopListening()
  }

  /** Changes settings and faults immediately. @throws ZodError for unknown settings */
  control(change: ControlChangeInput): void {
    const { faults, hangAfterTexts, die, revive, asleep, resetStats, ...settings } =
      ControlChange.parse(change)
    const simulation = this.#simulation
    simulation.change(settings)
    if (faults === null) simulation.faults = {}
    else if (faults !== undefined) simulation.faults = { ...simulation.faults, ...faults }
    if (hangAfterTexts !== undefined) simulation.hangAfter(hangAfterTexts)
    if (asleep === true) simulation.sleep('keep', 1)
    if (asleep === false) simulation.wake(null)
    if (resetStats) simulation.ledger.reset()
    if (die !== undefined) this.#later(die.afterMs, () => this.#die(die.forMs))
    if (revive) this.start().catch(() => {})
  }

  stats(): ServerStats {
    return this.#simulation.ledger.stats(this.#now())
  }

  /** The counters without the records, cheap enough for polling. */
  counters(): ServerCounters {
    return this.#simulation.ledger.counters(this.#now())
  }

  status() {
    const { settings, faults } = this.#simulation
    return {
      settings: { ...settings, apiKey: undefined },
      faults,
      counters: this.counters(),
    }
  }

  #now(): Pick<ServerCounters, 'connections' | 'state'> {
    const { hanging, asleep } = this.#simulation
    const up = hanging ? 'hanging' : asleep ? 'asleep' : 'up'
    return { connections: this.#sockets.size, state: this.#server === null ? 'down' : up }
  }

  /** Closes the listener and cuts every connection; {@link start} reopens it. */
  async die(): Promise<void> {
    await this.#stopListening()
  }

  #die(forMs: number | null): void {
    this.#stopListening()
    if (forMs !== null) this.#later(forMs, () => this.start().catch(() => {}))
  }

  async #stopListening(): Promise<void> {
    const server = this.#server
    if (server === null) return
    this.#server = null
    const closed = new Promise<void>((resolve) => server.close(() => resolve()))
    for (const [socket, { calls }] of this.#sockets) {
      for (const call of calls) call.willBeCut()
      socket.destroy()
    }
    this.#simulation.restart()
    await closed
  }

  #later(ms: number, run: () => void): void {
    if (ms === 0) {
      run()
      return
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer)
      if (!this.#closed) run()
    }, ms)
    this.#timers.add(timer)
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    const call = new Call(request, response)
    const place = this.#sockets.get(request.socket)
    place?.calls.add(call)
    const chunks: Buffer[] = []
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= BODY_LIMIT_BYTES) chunks.push(chunk)
    })
    request.on('end', () => {
      call.body = (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString()
      this.#answer(call, isLoopback(request.socket.remoteAddress))
    })
    call.onEnd((end) => {
      place?.calls.delete(call)
      if (!call.path.startsWith('/__')) {
        this.#simulation.ledger.called(
          call.route,
          end === 'answered' ? (call.status ?? 'cut') : end,
        )
      }
      this.#idleSoon(request.socket)
    })
  }

  #answer(call: Call, isLocal: boolean): void {
    if (call.path === '/__control' || call.path === '/__stats') {
      if (isLocal) this.#answerOwn(call)
      else call.send(json(403, { detail: 'answers on loopback only' }))
      return
    }
    const { apiKey } = this.#simulation.settings
    const keyed = apiKey !== null && this.dialect.requiresKey(call.path)
    if (keyed && call.headers.authorization !== `Bearer ${apiKey}`) {
      call.send(this.dialect.refusal('unauthorized', this.#simulation))
      return
    }
    const handler = this.#routes[call.route]
    if (handler !== undefined) handler(call)
    else {
      const refusal = this.#paths.has(call.path) ? 'method' : 'not_found'
      call.send(this.dialect.refusal(refusal, this.#simulation))
    }
  }

  #answerOwn(call: Call): void {
    if (call.path === '/__stats') {
      call.send(json(200, this.stats()))
      return
    }
    if (call.method === 'POST') {
      const change = ControlChange.safeParse(call.json() ?? null)
      if (!change.success) {
        call.send(json(400, { detail: z.prettifyError(change.error) }))
        return
      }
      // The server dies after it has answered this call.
      const { die, ...now } = call.json() as ControlChangeInput
      this.control(now)
      if (die !== undefined) call.onEnd(() => this.control({ die }))
    }
    call.send(json(200, this.status()))
  }

  #idleSoon(socket: Socket): void {
    const place = this.#sockets.get(socket)
    const { idleCloseMs } = this.#simulation.settings
    if (place === undefined || idleCloseMs === null || place.calls.size > 0) return
    // The timer keeps running during a call, which costs less than clearing and recreating it.
    if (place.idleMs === idleCloseMs) {
      place.idle?.refresh()
      return
    }
    clearTimeout(place.idle)
    place.idleMs = idleCloseMs
    place.idle = setTimeout(() => {
      const { idleCloseMs: now } = this.#simulation.settings
      if (place.calls.size === 0 && now !== null) socket.destroySoon()
    }, idleCloseMs)
  }
}

function isLoopback(address: string | undefined): boolean {
  return address !== undefined && /^(::1|(::ffff:)?127(\.\d{1,3}){3})$/.test(address)
}
