import { expect, test } from 'vitest'
import { SimulatedServer } from '../../../testkit/simulated-rm/server.ts'
import { createRewardRouter } from '../reward-router.ts'
import { config } from '../testing/harness.ts'

/** Waiting samples per process: more than any limit admits. */
const WAITING = 160

test('two processes with adaptive limits for one server do not drive each other’s limits up', async () => {
  const server = await SimulatedServer.start({
    model: 'rm',
    tokensPerSecond: 60_000,
    saturation: 8,
    running: 256,
  })
  const routers = [createRewardRouter({ processes: 2 }), createRewardRouter({ processes: 2 })]
  for (const router of routers) router.setServers([config(1, server.url, { maxInFlight: null })])
  const limitOf = (i: number) => routers[i]?.snapshot()[0]?.limit ?? 0
  const inFlightOf = (i: number) => routers[i]?.inFlight(1) ?? 0
  // Reports to each router how many samples the other has in flight. A real lease would report the other's slots.
  const lease = () => {
    routers.forEach((router, i) => {
      router.setSlots(1, 96, undefined, inFlightOf(1 - i))
    })
  }
  lease()
  const leasing = setInterval(lease, 50)
  let samples = 0
  let stop = false
  const load = routers.map((router) =>
    Promise.all(
      Array.from({ length: WAITING }, async () => {
        while (!stop) {
          const response = `${samples++} ${'word '.repeat(40)}`
          const input = { prompt: 'Q', response }
          await router.score({ model: 'rm', input, timeoutMs: 60_000, maxAttempts: 4 })
        }
      }),
    ),
  )
  while (samples < 9_000) await new Promise((resolve) => setTimeout(resolve, 50))
  const limits = [limitOf(0), limitOf(1)]
  stop = true
  clearInterval(leasing)
  await Promise.all(routers.map((router) => router.close()))
  await Promise.all(load)
  await server.close()
  // 8 samples saturate the server, and each process starts with 4. Each limit settles at 10 to 14, or at 20 on a busy
  // machine. Independent processes would have reached 96.
  expect(Math.max(...limits)).toBeLessThanOrEqual(32)
}, 60_000)
