import { expect, it } from 'vitest'
import { RecentPeak } from './recent-peak.ts'

it('is the maximum over the last one to two spans', () => {
  const peak = new RecentPeak(100)
  expect(peak.note(3, 1_000)).toBe(3)
  expect(peak.note(60, 1_040)).toBe(60)
  expect(peak.note(10, 1_099)).toBe(60)
  // The next span still counts the peak.
  expect(peak.note(10, 1_100)).toBe(60)
  expect(peak.note(20, 1_199)).toBe(60)
  // The second span after the peak no longer counts it.
  expect(peak.note(5, 1_200)).toBe(20)
  expect(peak.note(5, 1_300)).toBe(5)
})

it('drops values from before a long pause', () => {
  const peak = new RecentPeak(100)
  peak.note(60, 1_000)
  expect(peak.note(2, 1_200)).toBe(2)
})

it('can be cleared', () => {
  const peak = new RecentPeak(100)
  peak.note(60, 1_000)
  peak.note(70, 1_100)
  peak.forget()
  expect(peak.note(1, 1_120)).toBe(1)
})
