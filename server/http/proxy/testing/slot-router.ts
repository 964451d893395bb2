import type { ServerState } from '../../../contract/servers.ts'
import type {
  EngineName,
  RewardRouter,
  RouterSlot,
  SlotEnd,
  SlotRefusal,
  SlotRequest,
} from '../../../router/router-types.ts'
import type { KnownServer } from '../model-directory.ts'

export interface SlotServer {
  id: number
  name: string
  url: string
  model: string
  engine?: EngineName
  apiKey?: string | null
  state?: ServerState
  /** Maximum concurrent calls; the default is 1,000. */
  slots?: number
}

type Answer = { ok: true; slot: RouterSlot } | SlotRefusal

interface Waiting {
  request: SlotRequest
  sinceMs: number
  done(answer: Answer): void
}

/**
 * A router for tests that records every request and release. It assigns slots first come, first served, to servers in
 * the given order, instead of by load, health and policy.
 */
export class SlotRouter {
  servers: SlotServer[]
  readonly requests: SlotRequest[] = []
  readonly ends: { serverId: number; end: SlotEnd }[] = []
  readonly inFlight = new Map<number, number>()
  queueRows = Number.POSITIVE_INFINITY
  #waiting: Waiting[] = []

  constructor(servers: SlotServer[]) {
    this.servers = servers
  }

  get router(): RewardRouter {
    return this as unknown as RewardRouter
  }

  get waiting(): number {
    return this.#waiting.length
  }

  known(): readonly KnownServer[] {
    return this.servers.map(({ id, model, engine = 'vllm', state = 'ready' }) => ({
      id,
      model,
      engine,
      state,
    }))
  }

  acquire(request: SlotRequest): Promise<Answer> {
    const { signal: _, onRecall: __, ...recorded } = request
    this.requests.push(structuredClone(recorded))
    return new Promise((resolve) => {
      const ready = this.servers.some((s) => s.model === request.model && isReady(s))
      if (request.signal?.aborted) resolve({ ok: false, reason: 'cancelled' })
      else if (!ready && request.deadlineMs === undefined) {
        resolve({ ok: false, reason: 'no_server', detail: 'none is ready', retryAfterMs: 2_000 })
      } else if (this.#waiting.length >= this.queueRows && !this.#pick(request)) {
        resolve({ ok: false, reason: 'queue_full', retryAfterMs: 3_000 })
      } else this.#wait(request, resolve)
    })
  }

  #wait(request: SlotRequest, resolve: (answer: Answer) => void): void {
    const timer =
      request.deadlineMs === undefined
        ? undefined
        : setTimeout(() => waiting.done({ ok: false, reason: 'deadline' }), request.deadlineMs)
    const onAbort = () => waiting.done({ ok: false, reason: 'cancelled' })
    const waiting: Waiting = {
      request,
      sinceMs: performance.now(),
      done: (answer) => {
        clearTimeout(timer)
        request.signal?.removeEventListener('abort', onAbort)
        this.#waiting = this.#waiting.filter((w) => w !== waiting)
        resolve(answer)
      },
    }
    request.signal?.addEventListener('abort', onAbort)
    this.#waiting.push(waiting)
    this.pump()
  }

  #pick({ model, avoid, exclude }: SlotRequest): SlotServer | undefined {
    const free = this.servers.filter(
      (s) =>
        s.model === model &&
        isReady(s) &&
        !exclude?.includes(s.id) &&
        (this.inFlight.get(s.id) ?? 0) < (s.slots ?? 1_000),
    )
    return free.find((s) => !avoid?.includes(s.id)) ?? free[0]
  }

  pump(): void {
    for (const waiting of this.#waiting) {
      const server = this.#pick(waiting.request)
      if (server !== undefined) waiting.done({ ok: true, slot: this.#slot(server, waiting) })
    }
  }

  #slot(server: SlotServer, waiting: Waiting): RouterSlot {
    this.inFlight.set(server.id, (this.inFlight.get(server.id) ?? 0) + 1)
    let released = false
    return {
      serverId: server.id,
      serverName: server.name,
      engine: server.engine ?? 'vllm',
      url: server.url,
      apiKey: server.apiKey ?? null,
      queueMs: performance.now() - waiting.sinceMs,
      hasShare: () => true,
      release: (end) => {
        if (released) throw new Error(`the slot of ${server.name} was released twice`)
        released = true
        this.inFlight.set(server.id, (this.inFlight.get(server.id) as number) - 1)
        this.ends.push({ serverId: server.id, end })
        this.pump()
      },
    }
  }
}

function isReady(server: SlotServer): boolean {
  return (server.state ?? 'ready') === 'ready'
}
