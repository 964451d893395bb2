import { expect, test } from 'vitest'
import { FLEET_MONITORS, MONITORS } from '../../server/contract/monitors.ts'
import { selectedMonitors, subscriptionOf } from './webhook-form.prepare.ts'

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
