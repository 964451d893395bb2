import { expect, it } from 'vitest'
import type { MonitorName } from '../contract/monitors.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { listBatches } from '../store/sql/batches.ts'
import { overviewFigures } from '../store/sql/fleet.ts'
import { monitorAttention } from './overview-view.ts'

const database = testDatabaseForFile()

type Incidents = Parameters<typeof monitorAttention>[0]

const incident = (
  run: string,
  monitor: MonitorName,
  split: 'train' | 'val',
  severity: 'warning' | 'alerting' = 'warning',
) =>
  ({
    ...{ run, monitor, split, severity, openedStep: 4, latest: 0.25, worst: 0.25, threshold: 0.1 },
  }) as Incidents[number]

it('incidents of a monitor are one item, whose splits are named', () => {
  expect(
    monitorAttention([
      incident('a', 'failures', 'val'),
      incident('a', 'failures', 'train', 'alerting'),
      { ...incident('b', 'duplicates', 'val'), latest: 0.15 },
      ...['a', 'b', 'c', 'd'].map((run) => incident(run, 'length_correlation', 'train')),
    ]),
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
