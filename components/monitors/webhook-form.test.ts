import { expect, test } from 'vitest'
import { FLEET_MONITORS, MONITORS } from '../../server/contract/monitors.ts'
import { MAX_LISTED_RUNS } from '../../server/contract/runs.ts'
import { ownSettings, readThreshold, typedThreshold } from './monitor-words.ts'
import {
  readRuns,
  runsText,
  selectedMonitors,
  severitiesOf,
  severityChoice,
  subscriptionOf,
  unknownRuns,
} from './webhook-form.prepare.ts'

test('a fully selected group is stored as an empty list, any other selection by monitor name', () => {
  expect(subscriptionOf([...MONITORS, ...FLEET_MONITORS])).toEqual({ monitors: [], fleet: true })
  expect(subscriptionOf(MONITORS)).toEqual({ monitors: [], fleet: false })
  expect(subscriptionOf(FLEET_MONITORS)).toEqual({ monitors: [...FLEET_MONITORS], fleet: true })
  expect(subscriptionOf(['no_healthy_server', 'failures'])).toEqual({
    monitors: ['failures', 'no_healthy_server'],
    fleet: true,
  })
  expect(subscriptionOf(['failures'])).toEqual({ monitors: ['failures'], fleet: false })
})

test('a stored selection is selected again', () => {
  for (const selected of [
    MONITORS,
    FLEET_MONITORS,
    [...MONITORS, ...FLEET_MONITORS],
    ['floor'],
  ] as const) {
    expect(selectedMonitors(subscriptionOf(selected))).toEqual(selected)
  }
  // With `fleet: false`, a stored server monitor is not selected.
  expect(selectedMonitors({ monitors: ['floor', 'server_unavailable'], fleet: false })).toEqual([
    'floor',
  ])
})

test('saving a webhook without an edit keeps its severities, monitors and runs', () => {
  // The stored list names all monitors. It must not become an empty list, which means all monitors, including those of
  // later versions.
  const stored = { monitors: [...MONITORS], fleet: true }
  expect(subscriptionOf(selectedMonitors(stored).toReversed(), stored)).toEqual(stored)
  expect(subscriptionOf(['floor'], stored)).toEqual({ monitors: ['floor'], fleet: false })
  for (const severities of [['warning'], ['alerting'], ['warning', 'alerting']] as const) {
    expect(severitiesOf(severityChoice(severities))).toEqual(severities)
  }
  for (const runs of [[], ['lr=1e-6, seed=1', 'b,c'], [' outer spaces ', 'two\nlines']]) {
    expect(readRuns(runsText(runs), runs)).toEqual(runs)
  }
})

test('runs are read one per line, and those that stay in the text are unchanged', () => {
  expect(readRuns(' a, b \n\nc\nc')).toEqual(['a, b', 'c'])
  expect(readRuns(' kept \n added ', [' kept '])).toEqual([' kept ', 'added'])
})

test('a threshold that is not edited keeps its exact value', () => {
  for (const definition of [{ unit: 'share' }, { unit: 'ratio' }] as const) {
    const stored = 2 / 3
    const typed = typedThreshold(definition, stored)
    expect(readThreshold(definition, typed, stored)).toBe(stored)
  }
  expect(readThreshold({ unit: 'share' }, '66,5', 2 / 3)).toBe(0.665)
  expect(readThreshold({ unit: 'ratio' }, '−0.5', 1)).toBe(-0.5)
  expect(readThreshold({ unit: 'ratio' }, ' ', 1)).toBeNaN()
})

test('only the values that differ from the inherited setting are stored', () => {
  const inherited = { enabled: true, warning: 0.029, alerting: 0.1, openAfter: 1 }
  const warning = readThreshold({ unit: 'share' }, '2.9', 0.05)
  expect(
    ownSettings({ unit: 'share' }, { ...inherited, warning, alerting: 0.3 }, inherited),
  ).toEqual({ enabled: null, warning: null, alerting: 0.3, openAfter: null })
  expect(
    ownSettings({ unit: 'share' }, { ...inherited, enabled: false, openAfter: 2 }, inherited),
  ).toEqual({ enabled: false, warning: null, alerting: null, openAfter: 2 })
})

test('a run is called unknown only if the list of runs is complete', () => {
  const runs = Array.from({ length: MAX_LISTED_RUNS }, (_, i) => ({ name: `r${i}` }))
  expect(unknownRuns(['r1', 'old'], runs.slice(1))).toEqual(['old'])
  expect(unknownRuns(['r1', 'old'], runs)).toEqual([])
  expect(unknownRuns(['r1'], undefined)).toEqual([])
})
