import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import {
  type MoodyServer,
  proxyStorm,
  startMoodyServer,
} from '../../testkit/service/proxy-storm.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const REQUESTS = 100_000

const folder = mkdtempSync(join(tmpdir(), 'rewardops-memory-'))
const memoryFile = join(folder, 'memory.jsonl')

let service: Service
let moody: MoodyServer[] = []

beforeAll(async () => {
  service = await Service.start({
    env: {
      REWARDOPS_WORKERS: '0',
      NODE_OPTIONS: `--expose-gc --import=${new URL('../../testkit/service/tell-memory.ts', import.meta.url)}`,
      TELL_MEMORY_TO: memoryFile,
    },
  })
  moody = await Promise.all([1, 2, 3].map((seed) => startMoodyServer('moody', seed)))
  for (const [i, { url }] of moody.entries()) {
    await service.api.servers.register.mutate({
      name: `moody-${i + 1}`,
      url,
      engine: 'vllm',
      kind: 'generative',
      model: 'moody',
      maxInFlight: 32,
    })
  }
})
afterAll(async () => {
  const end = await service?.stop().finally(() => service.destroy())
  await Promise.all(moody.map((server) => server.close()))
  rmSync(folder, { recursive: true, force: true })
  expect(end?.code).toBe(0)
})

it('100,000 requests get their own answers, counters return to zero, and memory stays flat', async () => {
  const { server: pid } = await service.pids()
  const heapMb: number[] = []
  const residentMb: number[] = []
  const counts = await proxyStorm({
    url: service.url,
    model: 'moody',
    requests: REQUESTS,
    inFlight: 64,
    seed: 5,
    onTenth: async (tenth) => {
      process.kill(pid, 'SIGUSR2')
      heapMb.push(await waitFor('the heap', () => heapsMb()[tenth - 1]))
      residentMb.push(residentMbOf(pid))
    },
  })
  const { answered, refused, failed, aborted, broken, wrong } = counts
  expect(wrong.slice(0, 10)).toEqual([])
  expect(answered + refused + failed + aborted + broken).toBe(REQUESTS)
  // 4 in 100 calls fail before their answer begins, so three calls in a row fail 6 times in 100,000.
  expect(answered).toBeGreaterThan(0.85 * REQUESTS)
  expect(failed).toBeLessThan(0.002 * REQUESTS)
  expect(aborted).toBeGreaterThan(0.02 * REQUESTS)
  expect(broken).toBeGreaterThan(0.005 * REQUESTS)

  await waitFor('idle servers', () => moody.every(({ active }) => active === 0))
  await waitFor('closed connections', () => moody.every(({ open }) => open === 0))
  await waitFor('no lease', async () => {
    const leases = await service.sql<{ n: number }>(
      'select count(*)::int as n from lease where slots > 0 and expires_at > now()',
    )
    return leases[0]?.n === 0
  })
  await waitFor('no call in flight', async () =>
    (await service.api.servers.list.query()).every(({ inFlight }) => inFlight === 0),
  )

  const [heapAtHalf, heapAtEnd] = [heapMb[4], heapMb[9]] as [number, number]
  expect(heapAtEnd, `heap: ${heapMb.map(Math.round).join(', ')} MB`).toBeLessThan(1.1 * heapAtHalf)
  const [residentAtHalf, residentAtEnd] = [residentMb[4], residentMb[9]] as [number, number]
  expect(residentAtEnd, `resident: ${residentMb.map(Math.round).join(', ')} MB`).toBeLessThan(
    1.1 * residentAtHalf,
  )
}, 600_000)

function heapsMb(): number[] {
  if (!existsSync(memoryFile)) return []
  const lines = readFileSync(memoryFile, 'utf8').split('\n').slice(0, -1)
  return lines.map((line) => (JSON.parse(line) as { heapBytes: number }).heapBytes / 1e6)
}

function residentMbOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024
}
