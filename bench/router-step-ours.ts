import { createRewardRouter } from '../server/router/reward-router.ts'
import type { RouterServer } from '../server/router/router-types.ts'
import type { Dispatcher } from './router-step-dispatcher.ts'

/** Slots per server. The router's adaptive limit stays lower, so the slots have no effect. */
const SLOTS = 96
/** Timeout of a sample, far above the time limit of any scenario. */
const TIMEOUT_MS = 600_000

export const ours: Dispatcher = {
  name: 'ours',
  async run({ servers, samples, ended, signal }) {
    const router = createRewardRouter()
    router.setServers(
      servers.map(
        ({ id, url, model }): RouterServer => ({
          id,
          name: `s${id}`,
          url,
          engine: 'vllm',
          model,
          version: null,
          weight: 1,
          maxInFlight: null,
          apiKey: null,
          state: 'ready',
        }),
      ),
    )
    for (const { id } of servers) router.setSlots(id, SLOTS)
    await Promise.all(
      samples.map(async (sample) => {
        const result = await router.score({
          model: servers[0]?.model as string,
          input: { prompt: sample.prompt, response: sample.response },
          timeoutMs: TIMEOUT_MS,
          maxAttempts: 4,
          signal,
          run: 'bench',
          group: `g${sample.group}`,
        })
        ended(sample, result.ok ? result.score : null)
      }),
    )
    await router.close()
  },
}
