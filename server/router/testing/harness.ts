import { vi } from 'vitest'
import { type FakeHandler, FakeServer } from '../../engines/testing/fake-server.ts'
import { createRewardRouter } from '../reward-router.ts'
import type {
  RewardRouter,
  RouterOptions,
  RouterResult,
  RouterServer,
  RouterServerStats,
  ScoreRequest,
} from '../router-types.ts'

export class Harness {
  readonly router: RewardRouter
  readonly fakes: FakeServer[] = []

  constructor(options: RouterOptions = {}) {
    this.router = createRewardRouter({ patienceMs: 60_000, ...options })
  }

  async fake(handler: FakeHandler): Promise<FakeServer> {
    const fake = await FakeServer.start(handler)
    this.fakes.push(fake)
    return fake
  }

  /** Starts and registers servers s1, s2 … of model `rm`, with this many slots each. */
  async serve(handlers: FakeHandler[], slots = 64): Promise<FakeServer[]> {
    const fakes = await Promise.all(handlers.map((handler) => this.fake(handler)))
    this.router.setServers(fakes.map((fake, i) => config(i + 1, fake.url)))
    fakes.forEach((_, i) => {
      this.router.setSlots(i + 1, slots)
    })
    return fakes
  }

  #samples = 0

  /** Scores a sample of model `rm`. Its text is unique, because identical samples would share a request. */
  score(over: Partial<ScoreRequest> = {}): Promise<RouterResult> {
    return this.router.score({
      model: 'rm',
      input: { prompt: 'Q', response: `A${this.#samples++}` },
      timeoutMs: 20_000,
      maxAttempts: 4,
      ...over,
    })
  }

  stats(id = 1): RouterServerStats {
    const stats = this.router.snapshot().find((server) => server.serverId === id)
    if (stats === undefined) throw new Error(`no server ${id}`)
    return stats
  }

  async close(): Promise<void> {
    await this.router.close()
    await Promise.all(this.fakes.map((fake) => fake.close()))
  }
}

export function config(id: number, url: string, over: Partial<RouterServer> = {}): RouterServer {
  return {
    id,
    name: `s${id}`,
    url,
    engine: 'vllm',
    model: 'rm',
    version: null,
    weight: 1,
    // The limit is configured, so that tests do not depend on the adaptive one.
    maxInFlight: 10_000,
    apiKey: null,
    state: 'ready',
    ...over,
  }
}

export function until(holds: () => boolean): Promise<void> {
  return vi.waitFor(
    () => {
      if (!holds()) throw new Error('does not hold yet')
    },
    { timeout: 30_000, interval: 5 },
  )
}
