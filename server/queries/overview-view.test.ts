import { expect, it } from 'vitest'
import type { MonitorName } from '../contract/monitors.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
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
