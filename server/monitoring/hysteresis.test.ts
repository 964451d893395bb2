import { describe, expect, test } from 'vitest'
import { advance, type Limits, newStanding, type Standing } from './hysteresis.ts'

const ABOVE: Limits = { bad: 'above', warning: 0.5, alerting: 0.8, openAfter: 2, enabled: true }

function walk(values: (number | null)[], limits: Limits = ABOVE): string[] {
  let standing: Standing = newStanding()
  return values.map((value, at) => {
    const { after, change } = advance(standing, { value, n: 100 }, at + 1, limits)
    standing = { ...after, incident: after.state === 'ok' ? null : 1 }
    return change === null ? after.state : `${after.state} ${change}`
  })
}

describe('a monitor over the batches', () => {
  test('opens after the configured number of batches in a row', () => {
    expect(walk([0.6, 0.4, 0.6, 0.6])).toEqual(['ok', 'ok', 'ok', 'warning opened'])
    expect(walk([0.9, 0.9])).toEqual(['ok', 'alerting opened'])
    expect(walk([0.5], { ...ABOVE, openAfter: 1 })).toEqual(['warning opened'])
  })

  test('values around the threshold do not open and close incidents repeatedly', () => {
    const hover = Array.from({ length: 12 }, (_, at) => (at % 2 === 0 ? 0.51 : 0.49))
    expect(walk(hover).filter((one) => one !== 'ok')).toEqual([])
    expect(walk([0.6, 0.6, ...hover]).slice(2)).toEqual(Array(12).fill('warning'))
  })

  test('closes after three consecutive batches that are clear of the threshold by 10 %', () => {
    expect(walk([0.6, 0.6, 0.4, 0.4, 0.46, 0.4, 0.4, 0.4]).slice(1)).toEqual([
      ...['warning opened', 'warning', 'warning', 'warning', 'warning', 'warning', 'ok resolved'],
    ])
  })

  test('escalates, eases and closes', () => {
    expect(walk([0.6, 0.6, 0.9, 0.9, 0.6, 0.6, 0.6, 0.1, 0.1, 0.1])).toEqual([
      ...['ok', 'warning opened', 'warning', 'alerting escalated', 'alerting', 'alerting'],
      ...['warning eased', 'warning', 'warning', 'ok resolved'],
    ])
  })

  test('a batch without a value neither closes an incident nor counts', () => {
    expect(walk([null, 0.1, null, 0.6, null, 0.6, null])).toEqual([
      ...['insufficient', 'ok', 'insufficient', 'ok', 'insufficient', 'warning opened', 'warning'],
    ])
  })

  test('keeps the worst value of an incident, for either direction', () => {
    const below: Limits = { bad: 'below', warning: 0.5, alerting: 0.2, openAfter: 1, enabled: true }
    let standing = newStanding()
    for (const [step, value] of [0.4, 0.3, 0.45].entries())
      standing = advance(standing, { value, n: 9 }, step, below).after
    expect(standing).toMatchObject({ state: 'warning', worst: 0.3, worstStep: 1 })
    const size: Limits = { ...below, bad: 'size', alerting: 0.8 }
    expect(walk([-0.6], size)).toEqual(['warning opened'])
    expect(walk([0.6, -0.9], size)).toEqual(['warning opened', 'alerting escalated'])
  })

  test('closes when it is disabled', () => {
    const open = advance(newStanding(), { value: 0.9, n: 1 }, 1, { ...ABOVE, openAfter: 1 }).after
    const off = advance(open, { value: 0.9, n: 1 }, 2, { ...ABOVE, enabled: false })
    expect(off.change).toBe('resolved')
    expect(off.after.state).toBe('insufficient')
  })
})
