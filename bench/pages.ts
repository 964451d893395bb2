import { rm } from 'node:fs/promises'
import { Pool } from 'undici'
import { seedData } from '../scripts/seed-data.ts'
import { appRouter } from '../server/api/root.ts'
import { createLogger } from '../server/log.ts'
import { freePort } from '../testkit/processes/port.ts'
import { startService } from '../testkit/processes/service.ts'
import { addFleetRows } from './fleet-rows.ts'
import { benchFolder, type Emit } from './harness.ts'
import { median, quantile, rounded } from './statistics.ts'

/**
 * Pause between requests. Most answers are cached for up to 0.7 s, so the server computes a new answer after this
 * pause.
 */
const PAUSE_MS = 750
/** Limits on the median and the 95 % quantile of the slowest query, for any amount of data. */
const MAX_P50_MS = 300
const MAX_P95_MS = 800

export interface PagesOptions {
  samples: number
  /** Training prompts per run, or undefined for the default of `npm run seed`. */
  prompts?: number | undefined
  /** Data folder, or undefined for a temporary folder. A given folder is kept, and is seeded only if it is empty. */
  dataDir?: string | undefined
  repetitions: number
}

export const PAGES_DEFAULTS = { samples: 1_000_000, repetitions: 20 }

/**
 * Measures how long every query of every page takes over generated runs, for the first request and for later requests.
 */
export async function measurePages(emit: Emit, options: PagesOptions): Promise<void> {
  const seed = async (dataDir: string) => {
    const log = createLogger('warn', 'bench')
    const seeded = await seedData({
      ...{ dataDir, samples: options.samples, prompts: options.prompts, seed: 1 },
      ...{ onlyWhenEmpty: true, log },
    })
    emit({ name: 'pages.seeded', ...seeded, runs: seeded.runs.length })
    await addFleetRows(dataDir, log)
  }
  await withSeeded(options.dataDir, seed, async (ask) => {
    const cases = await pageQueries(ask)
    const { all, medians, p95s } = await measureQueries(emit, ask, cases, options.repetitions)
    emit({
      name: 'pages.all',
      queries: all.length,
      p50Ms: rounded(median(all)),
      p95Ms: rounded(quantile(all, 0.95)),
      maxMs: rounded(Math.max(...all)),
      // The limits apply to the times of the slowest query.
      slowestP50Ms: rounded(Math.max(...medians)),
      slowestP95Ms: rounded(Math.max(...p95s)),
      mostP50Ms: MAX_P50_MS,
      mostP95Ms: MAX_P95_MS,
      notMeasured: notMeasured(cases),
    })
  })
}

/** Starts a service without workers over a seeded data folder, by default a temporary one, and stops it at the end. */
export async function withSeeded(
  dataDir: string | undefined,
  seed: (dataDir: string) => Promise<void>,
  measure: (ask: Ask) => Promise<void>,
): Promise<void> {
  const folder = dataDir ?? (await benchFolder())
  let service: Awaited<ReturnType<typeof startService>> | undefined
  let pool: Pool | undefined
  try {
    await seed(folder)
    service = await startService({
      port: await freePort(),
      dataDir: folder,
      env: { DATABASE_URL: undefined, REWARDOPS_API_KEYS: undefined, REWARDOPS_WORKERS: '0' },
    })
    pool = new Pool(service.url, { connections: 4 })
    await measure(asker(pool))
  } finally {
    await pool?.destroy()
    await service?.stop()
    if (dataDir === undefined) await rm(folder, { recursive: true, force: true })
  }
}

export async function measureQueries(
  emit: Emit,
  ask: Ask,
  cases: readonly PageQuery[],
  repetitions: number,
): Promise<{ all: number[]; medians: number[]; p95s: number[] }> {
  const all: number[] = []
  const medians: number[] = []
  const p95s: number[] = []
  for (const [name, procedure, input] of cases) {
    const times: number[] = []
    let bytes = 0
    for (let i = 0; i < repetitions; i++) {
      const startedAt = performance.now()
      bytes = (await ask(procedure, typeof input === 'function' ? input(i) : input)).bytes
      times.push(performance.now() - startedAt)
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
    all.push(...times)
    medians.push(median(times))
    p95s.push(quantile(times, 0.95))
    emit({
      name: 'pages.query',
      page: name,
      procedure,
      firstMs: rounded(times[0] as number),
      p50Ms: rounded(median(times)),
      p95Ms: rounded(quantile(times, 0.95)),
      kib: rounded(bytes / 1024),
    })
  }
  return { all, medians, p95s }
}

export type Ask = (procedure: string, input: unknown) => Promise<{ data: unknown; bytes: number }>

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

export type PageQuery = [
  page: string,
  procedure: string,
  input?: unknown | ((nth: number) => unknown),
]

const NOT_OF_PAGES = new Set([
  // The trainers' API, measured by `rate`, `groups` and `single`.
  ...['batches.get', 'batches.wait', 'batches.next', 'batches.results', 'prompts.sample'],
  // Answered from memory.
  'session.get',
  // These queries need a server or a saved view. A generated database has neither.
  ...['servers.get', 'servers.log', 'views.get'],
  // This query scans all partitions and runs only when a button is pressed.
  'retention.preview',
])

export function notMeasured(queries: readonly PageQuery[]): string[] {
  const measured = new Set(queries.map(([, procedure]) => procedure))
  return queryNames().filter((name) => !measured.has(name) && !NOT_OF_PAGES.has(name))
}

function queryNames(): string[] {
  const all = appRouter._def.procedures as unknown as Record<string, { _def: { type: string } }>
  return Object.entries(all)
    .filter(([, { _def }]) => _def.type === 'query')
    .map(([name]) => name)
}

/** The queries of all pages. Paged lists are queried at the first, a middle and the last page. */
export async function pageQueries(ask: Ask): Promise<PageQuery[]> {
  const newest = (await ask('batches.list', { limit: 1 })).data as {
    items: { batchId: string }[]
  }
  const last = newest.items[0]?.batchId as string
  const number = Number(last.slice(1))
  const batch = `b${Math.max(1, number - 5)}`
  const middle = Math.ceil(number / 2)
  const ofRun = async (run: string, limit: number) => {
    const { items } = (await ask('batches.list', { run, limit })).data as {
      items: { batchId: string; step: number; split: string }[]
    }
    return items
  }
  // Two batches of the same step, which have the same prompts.
  const [ones, others] = [await ofRun('seeded-reward-model', 50), await ofRun('seeded-judge', 50)]
  const stepOf = new Map(others.map((other) => [`${other.split} ${other.step}`, other.batchId]))
  const one = ones.find(({ split, step }) => stepOf.has(`${split} ${step}`))
  const compared = {
    first: one?.batchId ?? batch,
    second: stepOf.get(`${one?.split} ${one?.step}`) ?? last,
  }
  const [prompt] = (
    (await ask('prompts.list', { run: 'seeded-math-rule', limit: 1 })).data as {
      items: { key: string }[]
    }
  ).items
  // Answers about ended steps are cached, so each repetition compares different steps.
  const lastStep = ones[0]?.step ?? 1
  const changes = (name: string) => (nth: number) => {
    const rangeAt = (share: number) => {
      const from = Math.floor(share * lastStep) + nth
      return { from, to: from + 4 }
    }
    return { name, before: rangeAt(0.2), after: rangeAt(0.6) }
  }
  const known = new Set(queryNames())
  const every: PageQuery[] = [
    ['overview', 'overview.get'],
    ['overview, fleet', 'fleet.history', { seconds: 3_600 }],
    ['fleet, 15 min', 'fleet.history', {}],
    ['fleet, 24 h', 'fleet.history', { seconds: 86_400 }],
    ['fleet, 30 d', 'fleet.history', { seconds: 2_592_000 }],
    ['runs', 'runs.table', {}],
    ['runs by tag', 'runs.table', { byTag: true }],
    ['runs, tags and keys', 'runs.facets'],
    ['runs to choose from', 'runs.list'],
    ['run, configuration', 'runs.config', { run: 'seeded-math-rule' }],
    ['run, verdicts', 'runs.get', { name: 'seeded-math-rule' }],
    ['run, reward model', 'runs.get', { name: 'seeded-reward-model' }],
    ['run, validation', 'runs.get', { name: 'seeded-judge', split: 'val' }],
    ['run, components', 'rewards.components', { run: 'seeded-rule-and-model' }],
    ['run, marks', 'marks.list', { run: 'seeded-math-rule' }],
    ['run, what changed', 'runs.changes', changes('seeded-math-rule')],
    ['run, what changed, composite', 'runs.changes', changes('seeded-rule-and-model')],
    ['prompts', 'prompts.list', { run: 'seeded-math-rule' }],
    ['prompts, hardest', 'prompts.list', { run: 'seeded-math-rule', orderBy: 'rate' }],
    ['prompts of a class', 'prompts.list', { run: 'seeded-math-rule', class: 'solved' }],
    ['prompts with a text', 'prompts.list', { run: 'seeded-math-rule', search: '77 + ' }],
    ['prompts counted', 'prompts.counts', { run: 'seeded-math-rule' }],
    ['prompts, heat map', 'prompts.heat', { run: 'seeded-math-rule' }],
    ['prompts, steps', 'prompts.steps', { run: 'seeded-math-rule' }],
    ['prompt', 'prompts.history', { run: 'seeded-math-rule', key: prompt?.key }],
    ['batches, first page', 'batches.list', { limit: 50 }],
    ['batches, middle', 'batches.list', { limit: 50, cursor: `b${middle}` }],
    ['batches, last page', 'batches.list', { limit: 50, cursor: 'b50' }],
    ['batches of a run', 'batches.list', { limit: 50, run: 'seeded-judge' }],
    ['batch', 'batches.view', { batchId: batch }],
    ['batch, groups', 'batches.groups', { batchId: batch }],
    ['batch, last groups', 'batches.groups', { batchId: batch, after: 900 }],
    ['batch, timeline', 'batches.timeline', { batchId: batch }],
    ['batch, bottleneck', 'batches.bottleneck', { batchId: batch }],
    ['samples, facets', 'samples.facets', {}],
    ['samples, facets of a run', 'samples.facets', { run: 'seeded-judge' }],
    ['samples, extra keys', 'samples.extraKeys', {}],
    ['samples, labels', 'annotations.labels', {}],
    ['samples, saved views', 'views.list', { page: 'samples' }],
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
    ['samples above a score, no matches', 'samples.list', { scoreMin: 11 }],
    ['samples of no-signal groups', 'samples.list', { groupSignal: 'no_signal' }],
    [
      'samples of no-signal groups of a run',
      'samples.list',
      { groupSignal: 'no_signal', run: 'seeded-reward-model' },
    ],
    ['samples with a failed tool call', 'samples.list', { failedToolCall: true }],
    [
      'samples with a failed tool call, no matches',
      'samples.list',
      { failedToolCall: true, run: 'seeded-reward-model' },
    ],
    [
      'worst samples with a failed tool call',
      'samples.list',
      { failedToolCall: true, sort: 'worst' },
    ],
    ...ofSampleSearch(known),
    ['sample', 'samples.get', { id: `${batch}-5`, imagesByHash: true }],
    ['sample, annotations', 'annotations.of', { sample: `${batch}-5` }],
    ['compare, candidates', 'compare.candidates', {}],
    ['compare, two batches', 'compare.pair', compared],
    ['compare, samples', 'compare.samples', compared],
    ['compare, groups', 'compare.groups', compared],
    [
      'compare, runs',
      'compare.runs',
      { runs: ['seeded-math-rule', 'seeded-reward-model', 'seeded-judge'] },
    ],
    ['monitors', 'monitors.list'],
    ['monitors of a run', 'monitors.run', { run: 'seeded-reward-model' }],
    ['monitors, history', 'monitors.history', {}],
    ['monitors, settings', 'monitors.settings', {}],
    ['alerts', 'alerts.list'],
    ['alerts, deliveries', 'alerts.deliveries', {}],
    ['servers', 'servers.list'],
    ['servers, monitors', 'servers.monitors'],
    ['servers, pools', 'pools.list'],
    ['workers', 'workers.list'],
    [
      'samples, first lines',
      'samples.firstLines',
      { ids: [...Array(30).keys()].map((idx) => `${batch}-${idx}`) },
    ],
    [
      'planner, of a run',
      'planner.plan',
      {
        source: { kind: 'run', run: 'seeded-reward-model' },
        phases: { rolloutMs: 60_000, logProbMs: 8_000, updateMs: 30_000 },
      },
    ],
    ['rewards', 'rewards.list'],
    ['settings, keys', 'keys.list'],
    ['settings, limits', 'limits.get'],
    ['settings, retention', 'retention.get'],
    ['settings, audit list', 'audit.list', {}],
    ['settings, about', 'about.get'],
  ]
  return every.filter(([, procedure]) => known.has(procedure))
}

/** Text searches, filters and counts of samples, if the measured service supports them. */
function ofSampleSearch(known: ReadonlySet<string>): PageQuery[] {
  if (!known.has('samples.extraKeys')) return []
  return [
    ['samples with a text', 'samples.list', { text: 'answer is 42' }],
    ['samples with a text, no matches', 'samples.list', { text: 'never written anywhere' }],
    [
      'samples of a run with a text',
      'samples.list',
      { text: 'Seeded response 77.', run: 'seeded-code-tests' },
    ],
    [
      'samples by extra info',
      'samples.list',
      { extra: [{ key: 'style', is: 'number', min: 0.8 }] },
    ],
    ['samples by length', 'samples.list', { lengthMin: 2_000 }],
    ['samples by attempts', 'samples.list', { attemptsMin: 2 }],
    ['samples counted', 'samples.count', { status: 'failed' }],
    ['samples counted by batch', 'samples.byBatch', { status: 'failed' }],
  ]
}
