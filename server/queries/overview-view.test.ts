import { expect, it } from 'vitest'
import type { MonitorName } from '../contract/monitors.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { listBatches } from '../store/sql/batches.ts'
import { overviewFigures } from '../store/sql/fleet.ts'
import type { LateIncidentRow } from '../store/sql/monitor-views.ts'
import type { BatchViews } from './batch-view.ts'
import type { FleetView } from './fleet-view.ts'
import { monitorAttention, OverviewView } from './overview-view.ts'
import type { RunTable } from './run-table.ts'

const database = testDatabaseForFile()

const incident = (
  run: string,
  monitor: MonitorName,
  split: 'train' | 'val',
  severity: 'warning' | 'alerting' = 'warning',
) =>
  ({
    ...{ run, monitor, split, severity, openedStep: 4, latest: 0.25, worst: 0.25, threshold: 0.1 },
  }) as LateIncidentRow

const withTotals = (incidents: LateIncidentRow[]): LateIncidentRow[] =>
  incidents.map((one) => {
    const same = incidents.filter(({ monitor }) => monitor === one.monitor)
    return {
      ...one,
      runs: new Set(same.map(({ run }) => run)).size,
      splits: (['train', 'val'] as const).filter((split) => same.some((i) => i.split === split)),
      isAlerting: same.some(({ severity }) => severity === 'alerting'),
    }
  })

it('incidents of a monitor are one item, whose splits are named', () => {
  expect(
    monitorAttention(
      withTotals([
        incident('a', 'failures', 'val'),
        incident('a', 'failures', 'train', 'alerting'),
        { ...incident('b', 'duplicates', 'val'), latest: 0.15 },
        ...['a', 'b', 'c', 'd'].map((run) => incident(run, 'length_correlation', 'train')),
      ]),
    ),
  ).toEqual([
    {
      ...{ level: 'error', title: 'a: failures', splits: ['train', 'val'] },
      detail:
        'validation since step 4: 25 %, threshold 10 %; training since step 4: 25 %, threshold 10 %',
      href: '/runs/a#monitor-failures',
    },
    {
      ...{ level: 'warning', title: expect.stringMatching(/^b: /), splits: ['val'] },
      detail: 'since step 4: 15 %, at worst 25 %, threshold 10 %',
      href: '/runs/b?split=val#monitor-duplicates',
    },
    {
      ...{ level: 'warning', title: expect.stringMatching(/ in 4 runs$/), splits: ['train'] },
      ...{ detail: 'a, b, c and 1 more', href: '/monitors' },
    },
  ])
})

it('a share near 0 or 1 is not rounded to it', () => {
  const details = [0.9996, 0.0004, 1].map((latest) => {
    const [item] = monitorAttention(
      withTotals([{ ...incident('a', 'failures', 'train'), latest, worst: latest }]),
    )
    return item?.detail
  })
  expect(details).toEqual([
    'since step 4: >99.9 %, threshold 10 %',
    'since step 4: <0.1 %, threshold 10 %',
    'since step 4: 100 %, threshold 10 %',
  ])
})

it('every monitor with open incidents is an item, which counts all of its runs', async () => {
  const db = new Database(database.url, createLogger('error', 'test'), { max: 2, name: 'test' })
  try {
    await db.adhoc(
      "insert into run (id, name) select 1000 + i, 'run-' || i from generate_series(0, 150) i",
    )
    await db.adhoc(
      `insert into monitor_standing (run_id, split, step, batch_id, at, monitors)
       select 1000 + i, 'train', 4, i, now(), '{}' from generate_series(0, 150) i`,
    )
    await db.adhoc(
      `insert into monitor_incident (monitor, run_id, split, severity, opened_step, value, threshold, worst)
       select case i when 0 then 'ceiling' else 'failures' end, 1000 + i, 'train',
         case i when 1 then 'alerting' else 'warning' end, 4, 0.25, 0.1, 0.25 from generate_series(0, 150) i order by i`,
    )
    const none = async () => []
    const view = new OverviewView(
      db,
      { servers: none, workers: none } as unknown as FleetView,
      { active: none } as unknown as BatchViews,
      { latest: none } as unknown as RunTable,
      0,
    )
    const items = (await view.get()).attention.filter(({ splits }) => splits !== undefined)
    expect(items.map(({ level, title, detail }) => `${level}: ${title}: ${detail}`)).toEqual([
      'error: Failures in 150 runs: run-150, run-149, run-148 and 147 more',
      'warning: run-0: ceiling: since step 4: –, at worst 25 %, threshold 10 %',
    ])
  } finally {
    await db.adhoc('truncate monitor_incident, monitor_standing')
    await db.close()
  }
})

it('samples of rescored validation batches count as rescored, not also as validation', async () => {
  const db = new Database(database.url, createLogger('error', 'test'), { max: 1, name: 'test' })
  await db.adhoc("insert into run (id, name) values (1, 'r')")
  await db.adhoc(
    `insert into batch (id, run_id, step, split, status, closed, reward, reward_name, samples, scored, failed, text_bucket, rescored_from)
     select id, 1, 1, split, 'completed', true, '{}', 'test', scored + 1, scored, 1, current_date, origin
     from (values (1, 'train', 40, null), (2, 'val', 20, null), (3, 'val', 10, 2), (4, 'train', 5, 1)) b(id, split, scored, origin)`,
  )
  expect(await overviewFigures(db)).toMatchObject({
    ...{ scored_hour: 75, failed_hour: 4, val_hour: 20, rescored_hour: 15 },
  })
  await db.close()
})

it('recent batches are found behind any number of active batches', async () => {
  const db = new Database(database.url, createLogger('error', 'test'), { max: 1, name: 'test' })
  try {
    await db.adhoc("insert into run (id, name) values (2, 'many-active')")
    await db.adhoc(
      `insert into batch (id, run_id, step, split, status, closed, reward, reward_name, samples, text_bucket)
       select 100 + i, 2, i, 'train', (array['completed', 'cancelled', 'failed', 'open', 'running'])[case when i < 4 then i else 4 + i % 2 end],
         true, '{}', 'test', 1, current_date from generate_series(1, 300) i`,
    )
    const ids = async (ended?: boolean) =>
      (await listBatches(db, { run: 'many-active', ended, beforeId: null, limit: 300 })).map(
        ({ id }) => id,
      )
    expect(await ids(true)).toEqual([103, 102, 101])
    expect(await ids(false)).toHaveLength(297)
    expect(await ids()).toHaveLength(300)
  } finally {
    await db.close()
  }
})
