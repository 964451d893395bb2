import type { ServerOptionsInput } from '../../../testkit/simulated-rm/options.ts'
import { SimulatedServer } from '../../../testkit/simulated-rm/server.ts'
import type { EngineName } from '../../engines/engine.ts'
import { createRewardRouter } from '../reward-router.ts'
import type {
  RewardRouter,
  RouterEvent,
  RouterOptions,
  RouterResult,
  RouterServer,
  RouterServerStats,
  ScoreRequest,
} from '../router-types.ts'
import { config } from './harness.ts'

const ENGINES: Record<string, EngineName> = {
  vllm: 'vllm',
  sglang: 'sglang',
  tei: 'tei',
  llamacpp: 'llamacpp',
  chat: 'openai',
}

export interface PoolOptions {
  slots?: number
  router?: RouterOptions
  server?: Partial<RouterServer>
}

/** A router in front of simulated servers s1, s2 …, all of model `rm`, over real HTTP. */
export class SimulatedPool {
  readonly router: RewardRouter
  readonly servers: SimulatedServer[]
  readonly events: RouterEvent[] = []
  #texts = 0

  private constructor(servers: SimulatedServer[], options: PoolOptions) {
    this.servers = servers
    this.router = createRewardRouter(options.router)
    this.router.onEvent((event) => this.events.push(event))
    this.register(options)
  }

  static async start(
    servers: ServerOptionsInput[],
    options: PoolOptions = {},
  ): Promise<SimulatedPool> {
    const started = await Promise.all(
      servers.map((server) => SimulatedServer.start({ model: 'rm', ...server })),
    )
    return new SimulatedPool(started, options)
  }

  register(options: PoolOptions = {}): void {
    this.router.setServers(
      this.servers.map((server, i) =>
        config(i + 1, server.url, {
          engine: ENGINES[server.dialect.name] as EngineName,
          ...options.server,
        }),
      ),
    )
    this.servers.forEach((_, i) => {
      this.router.setSlots(i + 1, options.slots ?? 8)
    })
  }

  score(over: Partial<ScoreRequest> = {}, chars = 400): Promise<RouterResult> {
    const response = `${this.#texts++}. ${'word '.repeat(chars / 5)}`
    return this.router.score({
      model: 'rm',
      input: { prompt: 'What is 6 × 7?', response },
      timeoutMs: 20_000,
      maxAttempts: 4,
      ...over,
    })
  }

  scoreAll(
    count: number,
    over: (i: number) => Partial<ScoreRequest> = () => ({}),
    chars: (i: number) => number = () => 400,
  ): Promise<RouterResult[]> {
    return Promise.all(Array.from({ length: count }, (_, i) => this.score(over(i), chars(i))))
  }

  stats(id: number): RouterServerStats {
    return this.router.snapshot().find(({ serverId }) => serverId === id) as RouterServerStats
  }

  get requests(): number {
    return this.router.snapshot().reduce((sum, { requests }) => sum + requests, 0)
  }

  get hedges(): number {
    return this.router.snapshot().reduce((sum, { hedges }) => sum + hedges, 0)
  }

  async close(): Promise<void> {
    await this.router.close()
    await Promise.all(this.servers.map((server) => server.close()))
  }
}

export function failuresOf(results: RouterResult[]): RouterResult[] {
  return results.filter(({ ok }) => !ok)
}
