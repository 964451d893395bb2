import { expect, test } from 'vitest'
import { ageText, clockTime, dateTime, formatAgo, minuteTime } from './time.ts'

test('formats ages in one unit and times in local time', () => {
  expect(
    [0, 1500, 12_000, 185_000, 7_300_000, 40 * 3_600_000, 80 * 3_600_000].map((ms) =>
      formatAgo(1e12, 1e12 + ms),
    ),
  ).toEqual([
    'now',
    'now',
    '12\u00a0s ago',
    '3\u00a0min ago',
    '2\u00a0h ago',
    '40\u00a0h ago',
    '3\u00a0d ago',
  ])
  expect(formatAgo(2_000, 1_000)).toBe('now')
  expect(ageText(-5)).toBe('0\u00a0s')
  const noon = new Date(2026, 10, 20, 9, 5, 3).getTime()
  expect([minuteTime(noon), clockTime(noon), dateTime(noon)]).toEqual([
    '09:05',
    '09:05:03',
    '2026-11-20 09:05:03',
  ])
})
