import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'undici'
import { freePort } from '../examples/processes/port.ts'
import { startService } from '../examples/processes/service.ts'
import { seedData } from '../scripts/seed-data.ts'
import { createLogger } from '../server/log.ts'
import type { Emit } from './harness.ts'
import { median, quantile, rounded } from './statistics.ts'

/** What is asked in one measurement: longer than a page's answer is remembered, so that each is made anew. */
const PAUSE_MS = 750
const REPETITIONS = 20

/** Options of the measurement. */
export interface PagesOptions {
  samples: number
  /** A folder that was seeded before, or is to be kept; absent: one of its own, removed afterwards. */
  dataDir?: string | undefined
}

export const PAGES_DEFAULTS = { samples: 1_000_000 }

/** How long the data of each page takes over made-up runs: every query, at its first time and in repetition. */
export async function measurePages(emit: Emit, options: PagesOptions): Promise<void> {
  const folder = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'rewardops-bench-')))
  if (options.dataDir === undefined) await chmod(folder, 0o711)
  let service: Awaited<ReturnType<typeof startService>> | undefined
  let pool: Pool | undefined
  try {
    const log = createLogger('warn', 'bench')
    const seeded = await seedData({
      ...{ dataDir: folder, samples: options.samples, seed: 1, onlyWhenEmpty: true, log },
    })
    emit({ name: 'pages.seeded', ...seeded, runs: seeded.runs.length })
    service = await startService({
      port: await freePort(),
      dataDir: folder,
      env: { DATABASE_URL: undefined, REWARDOPS_API_KEYS: undefined, REWARDOPS_WORKERS: '0' },
    })
    pool = new Pool(service.url, { connections: 4 })
    const ask = asker(pool)
    const all: number[] = []
    for (const [name, procedure, input] of await queries(ask)) {
      const times: number[] = []
      let bytes = 0
      for (let i = 0; i < REPETITIONS; i++) {
        const startedAt = performance.now()
        bytes = (await ask(procedure, input)).bytes
        times.push(performance.now() - startedAt)
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
      }
      all.push(...times)
      emit({
        name: 'pages.query',
        page: name,
        firstMs: rounded(times[0] as number),
        p50Ms: rounded(median(times)),
        p95Ms: rounded(quantile(times, 0.95)),
        kib: rounded(bytes / 1024),
      })
    }
    emit({
      name: 'pages.all',
      queries: all.length,
      p50Ms: rounded(median(all)),
      p95Ms: rounded(quantile(all, 0.95)),
      maxMs: rounded(Math.max(...all)),
    })
  } finally {
    await pool?.destroy()
    await service?.stop()
    if (options.dataDir === undefined) await rm(folder, { recursive: true, force: true })
  }
}

type Ask = (procedure: string, input: unknown) => Promise<{ data: unknown; bytes: number }>

function asker(pool: Pool): Ask {
  return async (procedure, input) => {
    const query = input === undefined ? '' : `?input=${encodeURIComponent(JSON.stringify(input))}`
    const { statusCode, body } = await pool.request({
      path: `/api/trpc/${procedure}${query}`,
      method: 'GET',
    })
    const text = await body.text()
    if (statusCode !== 200)
      throw new Error(`${procedure} answered ${statusCode}: ${text.slice(0, 200)}`)
    return {
      data: (JSON.parse(text) as { result: { data: unknown } }).result.data,
      bytes: text.length,
    }
  }
}

/** Every query of every page; lists at their beginning, in the middle and at their end. */
async function queries(ask: Ask): Promise<[page: string, procedure: string, input?: unknown][]> {
  const newest = (await ask('batches.list', { limit: 1 })).data as {
    items: { batchId: string }[]
  }
  const last = newest.items[0]?.batchId as string
  const number = Number(last.slice(1))
  const batch = `b${Math.max(1, number - 5)}`
  const middle = Math.ceil(number / 2)
  return [
    ['overview', 'overview.get'],
    ['runs', 'runs.list'],
    ['run, verdicts', 'runs.get', { name: 'seeded-math-rule' }],
    ['run, reward model', 'runs.get', { name: 'seeded-reward-model' }],
    ['run, validation', 'runs.get', { name: 'seeded-judge', split: 'val' }],
    ['run, components', 'rewards.components', { run: 'seeded-rule-and-model' }],
    ['batches, first page', 'batches.list', { limit: 50 }],
    ['batches, middle', 'batches.list', { limit: 50, cursor: `b${middle}` }],
    ['batches, last page', 'batches.list', { limit: 50, cursor: 'b50' }],
    ['batches of a run', 'batches.list', { limit: 50, run: 'seeded-judge' }],
    ['batch', 'batches.view', { batchId: batch }],
    ['batch, groups', 'batches.groups', { batchId: batch }],
    ['samples, facets', 'samples.facets', {}],
    ['batch, timeline', 'batches.timeline', { batchId: batch }],
    ['samples, first page', 'samples.list', {}],
    ['samples, middle', 'samples.list', { cursor: `_${middle}` }],
    ['samples, last page', 'samples.list', { cursor: '_1' }],
    ['samples of a batch', 'samples.list', { batch }],
    ['samples, worst', 'samples.list', { sort: 'worst' }],
    ['samples, best of a run', 'samples.list', { sort: 'best', run: 'seeded-reward-model' }],
    ['samples, slowest', 'samples.list', { sort: 'slowest' }],
    ['samples that failed', 'samples.list', { status: 'failed' }],
    ['samples of a reason', 'samples.list', { reason: 'unparseable' }],
    ['samples of a source', 'samples.list', { dataSource: 'taco' }],
    ['samples of a group', 'samples.list', { uid: 'p123' }],
    ['samples of a server', 'samples.list', { server: 'seeded-rm-2' }],
    ['samples above a score', 'samples.list', { scoreMin: 9.5 }],
    ['samples of a score that none has', 'samples.list', { scoreMin: 11 }],
    ['sample', 'samples.get', { id: `${batch}-5` }],
    ['servers', 'servers.list'],
    ['workers', 'workers.list'],
    ['rewards', 'rewards.list'],
  ]
}
