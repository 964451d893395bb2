import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startSimulatedServers } from '../../processes/simulated-rm.ts'
import { Service } from '../service.ts'
import { waitFor } from '../wait-for.ts'
import { fuzz, type Tally } from './fuzz.ts'
import { fillTarget } from './target.ts'

const ROOT = join(import.meta.dirname, '../../..')

export interface ServiceTally extends Tally {
  /** Heap of the server process after a tenth of the calls and at the end, each after a full garbage collection. */
  heapBytes: [early: number, end: number]
  /** Whether the server process, Postgres and the worker kept running from start to end. */
  isSameProcesses: boolean
  problems: string[]
}

export const HAS_PAGES = existsSync(join(ROOT, '.next/BUILD_ID'))

export async function fuzzService(
  seed: number,
  calls: number,
  { from = 0, pages = HAS_PAGES } = {},
): Promise<ServiceTally> {
  const folder = mkdtempSync(join(tmpdir(), 'rewardops-fuzz-'))
  const memory = join(folder, 'memory.jsonl')
  const adminKey = randomBytes(24).toString('base64url')
  const rm = await startSimulatedServers()
  const service = await Service.start({
    headers: { authorization: `Bearer ${adminKey}` },
    env: {
      REWARDOPS_WORKERS: '1',
      REWARDOPS_PAGES: pages ? '1' : '0',
      REWARDOPS_API_KEYS: adminKey,
      REWARDOPS_FUNCTIONS_DIR: folder,
      LOG_LEVEL: 'warn',
      NODE_OPTIONS: `--expose-gc --import=${new URL('../tell-memory.ts', import.meta.url)}`,
      TELL_MEMORY_TO: memory,
    },
  })
  try {
    const pids = await service.pids()
    const target = await fillTarget(service, rm, { adminKey, functions: folder, pages })
    const heap = async (reading: number) => {
      process.kill(pids.server, 'SIGUSR2')
      return waitFor('the heap', () => {
        if (!existsSync(memory)) return false
        const line = readFileSync(memory, 'utf8').split('\n').slice(0, -1)[reading]
        return line !== undefined && (JSON.parse(line) as { heapBytes: number }).heapBytes
      })
    }
    const options = { origin: service.url, target, seed, secrets: [service.dataDir, ROOT] }
    const early = Math.ceil(calls / 10)
    const first = await fuzz({ ...options, calls: early, from })
    const before = await heap(0)
    const rest = await fuzz({ ...options, calls: calls - early, from: from + early })
    await service.healthy()
    const after = await heap(1)
    for (const [kind, count] of first.kinds) {
      rest.kinds.set(kind, (rest.kinds.get(kind) ?? 0) + count)
    }
    return {
      calls: first.calls + rest.calls,
      kinds: rest.kinds,
      faults: [...first.faults, ...rest.faults],
      slowest: first.slowest.ms > rest.slowest.ms ? first.slowest : rest.slowest,
      heapBytes: [before, after],
      isSameProcesses: JSON.stringify(await service.pids()) === JSON.stringify(pids),
      problems: service.log.problems(),
    }
  } finally {
    await service.stop().finally(() => service.destroy())
    await rm.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
