import { rollUpRuns } from '../server/background/run-roll-ups.ts'
import { createLogger } from '../server/log.ts'
import { Database } from '../server/store/database.ts'
import { openDatabase } from '../server/store/postgres/connect.ts'
import type { Emit } from './harness.ts'
import { measureQueries, type PageQuery, withSeeded } from './pages.ts'
import { rounded } from './statistics.ts'

const RUNS = 1_000
const STEPS = 200
/** Number of steps of an additional long run. */
const LONG_STEPS = 10_000
/** Maximum median duration of the slowest query, ms. */
const MAX_P50_MS = 300

export interface RunsOptions {
  /** Data folder, or undefined for a temporary folder. A given folder is kept, and is filled only if it has no runs. */
  dataDir?: string | undefined
  repetitions: number
}

export const RUNS_DEFAULTS = { repetitions: 20 }

export async function measureRuns(emit: Emit, options: RunsOptions): Promise<void> {
  const seed = async (dataDir: string) => {
    emit({ name: 'runs.seeded', ...(await seedRuns(dataDir)) })
  }
  await withSeeded(options.dataDir, seed, async (ask) => {
    const middle = (await ask('runs.table', { limit: 200, sort: 'best' })).data as {
      nextCursor: string
    }
    const columns = ['optimizer.lr', 'value7', 'model']
    const cases: PageQuery[] = [
      ['runs', 'runs.table', {}],
      ['runs, with columns', 'runs.table', { columns }],
      ['runs, best', 'runs.table', { sort: 'best' }],
      ['runs, second page', 'runs.table', { sort: 'best', cursor: middle.nextCursor }],
      ['runs, 200 on a page', 'runs.table', { limit: 200, columns }],
      ['runs by configuration', 'runs.table', { sortConfig: 'optimizer.lr', columns }],
      ['runs by name', 'runs.table', { search: '77' }],
      [
        'runs, filtered',
        'runs.table',
        { tags: ['team-1'], config: [{ key: 'optimizer.lr', is: '<', value: '5e-6' }] },
      ],
      ['runs by tag', 'runs.table', { byTag: true, sort: 'change' }],
      ['runs, tags and keys', 'runs.facets'],
      ['runs to choose from', 'runs.list'],
      ['overview', 'overview.get'],
    ]
    const { all, medians, p95s } = await measureQueries(emit, ask, cases, options.repetitions)
    emit({
      name: 'runs.all',
      queries: all.length,
      slowestP50Ms: rounded(Math.max(...medians)),
      slowestP95Ms: rounded(Math.max(...p95s)),
      mostP50Ms: MAX_P50_MS,
    })
  })
}

/** Inserts ended batches with roll-ups but without samples, then rolls up their runs. */
async function seedRuns(dataDir: string): Promise<Record<string, unknown>> {
  const log = createLogger('warn', 'bench')
  const database = await openDatabase({ databaseUrl: null, dataDir, log })
  const db = new Database(database.url, log, {
    ...{ max: 2, name: 'rewardops bench', keyed: true, lazyCommits: true },
  })
  try {
    const there = await db.adhoc('select 1 from run limit 1')
    if (there.length > 0) return { before: true }
    await db.adhoc(
      `insert into run (name, config, config_values, tags)
       select 'run-' || i, v::json, v, array['team-' || i % 7, 'sweep-' || i % 40]
       from generate_series(1, $1) i, lateral (
         select jsonb_object_agg('value' || k, (i * k) % 13) || jsonb_build_object('model', 'qwen3-' || i % 3,
           'optimizer.lr', (1 + i % 10) * 1e-6) as v from generate_series(1, 30) k) c`,
      [RUNS],
    )
    await db.adhoc("insert into run (name) values ('long')")
    const insert = `
      insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, scored, failed, groups,
        groups_completed, text_bucket, mean, group_signals, rolled_up, monitored, submitted_at, completed_at)
      select run.id, step, 'train', 'completed', true, jsonb_build_object('kind', 'rule', 'text', repeat('x', 600)), 'gsm8k',
        1024, 1020, 4, 128, 128, current_date, 0.5 + step * 0.001 + (hashint4(run.id * 1000 + step) % 1000) * 1e-4,
        '{"varied": 90, "all_correct": 20, "all_incorrect": 18}', true, true, at, at + interval '20 seconds'
      from generate_series(1, $1::int) step, run, lateral (select now() - ($1 - step) * interval '2 minutes' as at) t`
    await db.adhoc(`${insert} where run.name <> 'long' order by step, run.id`, [STEPS])
    const longId = (await db.adhoc<{ id: number }>("select id from run where name = 'long'"))[0]?.id
    const startedAt = performance.now()
    await rollUpRuns(db, { all: true })
    const rollUpMs = (performance.now() - startedAt) / RUNS
    await db.adhoc(`${insert} where run.name = 'long'`, [LONG_STEPS])
    const again = async () => {
      await db.adhoc(
        `update batch set in_run_roll_up = false where id = (select max(id) from batch where run_id = $1)`,
        [longId],
      )
      const startedAt = performance.now()
      await rollUpRuns(db, { all: true })
      return performance.now() - startedAt
    }
    await again()
    return {
      runs: RUNS,
      steps: STEPS,
      rollUpMs: rounded(rollUpMs, 2),
      longRollUpMs: rounded(await again()),
    }
  } finally {
    await db.close()
    await database.close()
  }
}
