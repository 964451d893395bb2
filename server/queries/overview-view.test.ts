import { expect, it } from 'vitest'
import type { MonitorName } from '../contract/monitors.ts'
import { monitorAttention } from './overview-view.ts'

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
