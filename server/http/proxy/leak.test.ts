import { expect, it } from 'vitest'
import { FULL } from '../../../testkit/service/full-run.ts'
import { proxyStorm, startMoodyServer } from '../../../testkit/service/proxy-storm.ts'
import { waitFor } from '../../../testkit/service/wait-for.ts'
import { createRewardRouter } from '../../router/reward-router.ts'
import type { RouterServer } from '../../router/router-types.ts'
import { startProxy } from './testing/proxy-bed.ts'

const REQUESTS = FULL ? 3_000 : 450

it('leaks nothing, and gives each client its own answer', async () => {
  const moody = await Promise.all([1, 2, 3].map((seed) => startMoodyServer('rm', seed)))
  const servers = moody.map(
    ({ url }, i): RouterServer => ({
      id: i + 1,
      name: `rm-${i + 1}`,
      url,
      engine: 'vllm',
      kind: 'generative',
      model: 'rm',
      version: null,
      weight: 1,
      maxInFlight: 32,
      apiKey: null,
      state: 'ready',
    }),
  )
  const router = createRewardRouter()
  router.setServers(servers)
  for (const { id } of servers) router.setSlots(id, 16)
  const bed = await startProxy(router, () => servers)
  try {
    const counts = await proxyStorm({
      url: bed.url,
      model: 'rm',
      requests: REQUESTS,
      inFlight: 64,
      seed: 11,
    })
    const { answered, refused, failed, aborted, broken, wrong } = counts
    expect(wrong).toEqual([])
    expect(answered + refused + failed + aborted + broken).toBe(REQUESTS)
    // 3 % of the calls fail before their answer begins, so three failures in a row are rare.
    expect(answered).toBeGreaterThan((REQUESTS * 5) / 6)
    expect(failed).toBeLessThan(REQUESTS / 150)
    expect(aborted).toBeGreaterThan(REQUESTS / 60)
    // Few servers break off their answers before the client does, so a short run may have none.
    if (FULL) expect(broken).toBeGreaterThan(REQUESTS / 600)
    await waitFor('an idle proxy', () => bed.proxy.counts().requests === 0)
    expect(bed.proxy.counts().calls).toBe(0)
    for (const server of router.snapshot()) {
      expect(server).toMatchObject({ inFlight: 0, waiting: 0, workTokens: 0 })
    }
    await waitFor('idle servers', () => moody.every(({ active }) => active === 0))
    await waitFor('closed connections', () => bed.proxy.counts().connections === 0)
    await waitFor('servers without connections', () => moody.every(({ open }) => open === 0))
  } finally {
    await bed.close()
    await router.close()
    await Promise.all(moody.map((server) => server.close()))
  }
})
