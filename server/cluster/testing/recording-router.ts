import { LATENCY_BOUNDS_MS } from '../../router/latency-histogram.ts'
import type {
  EngineLoad,
  RatePermits,
  RewardRouter,
  RouterEvent,
  RouterServer,
  RouterServerStats,
} from '../../router/router-types.ts'

/** A router that sends nothing: it records its inputs and returns the statistics a test sets. */
export class RecordingRouter implements RewardRouter {
  servers: readonly RouterServer[] = []
  readonly policies: [model: string, policy: string | null][] = []
  processes = 1
  readonly loads: [serverId: number, load: EngineLoad | null][] = []
  readonly slots = new Map<number, { slots: number; untilMs: number | undefined }>()
  readonly stats = new Map<number, RouterServerStats>()
  readonly waiting = new Map<number, number>()
  readonly #demand = new Set<(serverId: number) => void>()
  readonly #events = new Set<(event: RouterEvent) => void>()

  setServers(servers: readonly RouterServer[]): void {
    this.servers = servers
  }
  setPolicy(model: string, policy: string | null): void {
    this.policies.push([model, policy])
  }
  setProcesses(processes: number): void {
    this.processes = processes
  }
  setLoad(serverId: number, load: EngineLoad | null): void {
    this.loads.push([serverId, load])
  }
  recall(): void {}

  setSlots(serverId: number, slots: number, untilMs?: number): void {
    this.slots.set(serverId, { slots, untilMs })
  }
  setPermits(_: number, __: RatePermits): void {}
  reclaimPermits() {
    return { requests: 0, tokens: 0 }
  }
  permitDemand() {
    return { requests: 0, tokens: 0, tokensOverspent: 0 }
  }
  inFlight(serverId: number): number {
    return this.stats.get(serverId)?.inFlight ?? 0
  }
  demand(serverId: number): number {
    return this.inFlight(serverId) + (this.waiting.get(serverId) ?? 0)
  }
  onDemand(listener: (serverId: number) => void): () => void {
    this.#demand.add(listener)
    return () => this.#demand.delete(listener)
  }
  onEvent(listener: (event: RouterEvent) => void): () => void {
    this.#events.add(listener)
    return () => this.#events.delete(listener)
  }
  score(): never {
    throw new Error('this router sends nothing')
  }
  chat(): never {
    throw new Error('this router sends nothing')
  }
  acquire(): never {
    throw new Error('this router sends nothing')
  }
  models() {
    return []
  }
  chatTemplate(): null {
    return null
  }
  snapshot(): RouterServerStats[] {
    return [...this.stats.values()].map((s) => ({ ...s, latency: [...s.latency] }))
  }
  requestFor(): null {
    return null
  }
  async close(): Promise<void> {}

  wait(serverId: number, samples: number): void {
    this.waiting.set(serverId, samples)
    for (const listener of this.#demand) listener(serverId)
  }

  event(serverId: number, fields: Partial<RouterEvent> = {}): void {
    const event: RouterEvent = {
      serverId,
      serverName: `s${serverId}`,
      from: 'ok',
      to: 'ejected',
      cause: '5 faults in a row',
      atMs: Date.now(),
      ...fields,
    }
    for (const listener of this.#events) listener(event)
  }

  set(serverId: number, fields: Partial<RouterServerStats>): void {
    const before = this.stats.get(serverId) ?? nothing(serverId)
    this.stats.set(serverId, { ...before, ...fields })
  }
}

function nothing(serverId: number): RouterServerStats {
  return {
    serverId,
    name: `s${serverId}`,
    model: 'rm',
    state: 'ready',
    health: 'ok',
    ejectedUntilMs: null,
    consecutiveFaults: 0,
    inFlight: 0,
    slots: 0,
    limit: 8,
    capacity: 8,
    workTokens: 0,
    tokensPerSecond: null,
    waiting: 0,
    requests: 0,
    errors: 0,
    retries: 0,
    hedges: 0,
    canaries: 0,
    tokens: 0,
    ejections: 0,
    failures: { client: 0, busy: 0, fault: 0, stall: 0, corrupt: 0, conn_race: 0 },
    latency: LATENCY_BOUNDS_MS.map(() => 0),
  }
}
