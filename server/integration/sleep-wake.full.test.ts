import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { FULL } from '../../testkit/service/full-run.ts'
import { rollouts, type Submit } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { ServerOptionsInput } from '../../testkit/simulated-rm/options.ts'
import { SimulatedServer } from '../../testkit/simulated-rm/server.ts'
import type { ServerDto } from '../contract/servers.ts'

let service: Service
let servers: SimulatedServer[] = []

beforeAll(async () => {
  service = await Service.start()
})
afterEach(async () => {
  for (const { name } of await list()) await service.api.servers.remove.mutate({ name })
  await Promise.all(servers.map((server) => server.close()))
  servers = []
})
afterAll(() => stopCleanly(service))

async function simulated(name: string, options: ServerOptionsInput = {}): Promise<SimulatedServer> {
  const server = await SimulatedServer.start(options)
  servers.push(server)
  const fields = { name, url: server.url, maxInFlight: 8 }
  expect(await service.api.servers.register.mutate(fields)).toMatchObject({
    state: 'ready',
    canSleep: true,
  })
  server.control({ resetStats: true })
  return server
}

const list = () => service.api.servers.list.query()
const get = (name: string) => service.api.servers.get.query({ name })
const inState = (name: string, state: ServerDto['state']) =>
  waitFor(`${name} to be ${state}`, async () => (await get(name)).state === state)
const submit = (count: number, reward: Submit['reward']) =>
  service.api.batches.submit.mutate({
    run: 'sleepers',
    step: 1,
    samples: rollouts(count),
    reward: { model: 'simulated-rm', ...reward },
  })
const wait = (batchId: string) => service.api.batches.wait.query({ batchId, waitMs: 60_000 })
const lifecycle = (server: SimulatedServer) =>
  server.stats().lifecycle.map(({ route, inFlight }) => [route.replace(/\?.*/, ''), inFlight])

describe('sleep is never sent while work is in flight', () => {
  it.each(FULL ? (['vllm', 'sglang'] as const) : (['vllm'] as const))(
    '%s, requested under full load',
    async (dialect) => {
      const sleepy = await simulated('sleepy', { dialect, latency: 'uniform:20,120' })
      const other = await simulated('other', { dialect, latency: 'uniform:20,120' })
      const { batchId } = await submit(600, {})
      await waitFor('full load', () => sleepy.stats().textsInFlight >= 8)
      const asleep = await service.api.servers.sleep.mutate({ name: 'sleepy' })
      expect(asleep).toMatchObject({ state: 'sleeping', awakeUntil: null })
      const route = dialect === 'vllm' ? 'POST /sleep' : 'POST /release_memory_occupation'
      expect(lifecycle(sleepy)).toEqual([[route, 0]])
      const before = sleepy.stats().textsTotal
      expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 600, failed: 0 })
      expect(sleepy.stats()).toMatchObject({ textsTotal: before, aborted: 0, state: 'asleep' })
      expect(other.stats().textsTotal).toBeGreaterThan(200)
      const [last, first] = (await get('sleepy')).events.filter(({ kind }) => kind === 'state')
      expect([first, last]).toMatchObject([
        { from: 'ready', to: 'draining' },
        { from: 'draining', to: 'sleeping', evidence: { level: 1, drainMs: expect.any(Number) } },
      ])
    },
  )
})

describe('wake', () => {
  it('is one call for twenty callers', async () => {
    const rm = await simulated('rm', { wakeMs: 300 })
    await service.api.servers.sleep.mutate({ name: 'rm' })
    const wake = () => service.api.servers.wake.mutate({ name: 'rm', awakeForMs: 60_000 })
    const woken = await Promise.all(Array.from({ length: 20 }, wake))
    for (const server of woken) expect(server).toMatchObject({ state: 'ready' })
    expect(lifecycle(rm).map(([route]) => route)).toEqual(['POST /sleep', 'POST /wake_up'])
    const { awakeUntil, events } = await get('rm')
    expect(Date.parse(awakeUntil!) - Date.now()).toBeGreaterThan(45_000)
    const path = ['ready', 'draining', 'sleeping', 'waking', 'probing', 'ready']
    expect(events.map((e) => e.to).reverse()).toEqual(path)
  })

  it('ends in sleep when its time is over, even if the service was killed meanwhile', async () => {
    const rm = await simulated('rm')
    await service.api.servers.sleep.mutate({ name: 'rm' })
    await service.api.servers.wake.mutate({ name: 'rm', awakeForMs: 4_000 })
    await service.kill9('all')
    expect(rm.stats().state).toBe('up')
    await service.restart()
    await inState('rm', 'sleeping')
    expect(rm.stats().state).toBe('asleep')
    expect(lifecycle(rm)).toEqual([
      ['POST /sleep', 0],
      ['POST /wake_up', 0],
      ['POST /sleep', 0],
    ])
  })

  it('interrupted by a kill is completed by the next start, and ends in sleep', async () => {
    const rm = await simulated('rm', { wakeMs: 1_500 })
    await service.api.servers.sleep.mutate({ name: 'rm' })
    const cut = service.api.servers.wake.mutate({ name: 'rm', awakeForMs: 5_000 }).catch(() => null)
    await inState('rm', 'waking')
    await service.kill9('all')
    await cut
    await service.restart()
    // The time until which the server stays awake is stored. The server therefore ends asleep, whether or not it woke
    // before the kill.
    await inState('rm', 'sleeping')
    await waitFor('a server asleep', () => rm.stats().state === 'asleep')
  })
})

describe('a batch with sleepAfter', () => {
  it('finds its servers asleep, is scored, and leaves them asleep', async () => {
    const rms = [await simulated('a', { wakeMs: 200 }), await simulated('b', { wakeMs: 200 })]
    await Promise.all(['a', 'b'].map((name) => service.api.servers.sleep.mutate({ name })))
    const { batchId } = await submit(64, { sleepAfter: true })
    expect(await wait(batchId)).toMatchObject({ status: 'completed', scored: 64, failed: 0 })
    await Promise.all([inState('a', 'sleeping'), inState('b', 'sleeping')])
    for (const rm of rms) {
      expect(lifecycle(rm)).toEqual([
        ['POST /sleep', 0],
        ['POST /wake_up', 0],
        ['POST /sleep', 0],
      ])
    }
    const next = await submit(64, { sleepAfter: true })
    expect(await wait(next.batchId)).toMatchObject({ scored: 64, failed: 0 })
    await Promise.all([inState('a', 'sleeping'), inState('b', 'sleeping')])
  })

  it('is refused if no server of the model can sleep, and for a rule', async () => {
    const tei = await SimulatedServer.start({ dialect: 'tei', model: 'sleepless' })
    servers.push(tei)
    await service.api.servers.register.mutate({ name: 'tei', url: tei.url })
    await expect(submit(1, { model: 'sleepless', sleepAfter: true })).rejects.toMatchObject({
      data: { reason: 'unsupported_setting' },
      message: expect.stringMatching(/"sleepless"/),
    })
    const call = service.api.batches.submit.mutate({
      run: 'sleepers',
      step: 1,
      samples: rollouts(1),
      reward: { sleepAfter: true },
    })
    await expect(call).rejects.toMatchObject({ data: { reason: 'unsupported_setting' } })
  })
})
