import { expect, test } from 'vitest'
import {
  DEFAULT_RANGE,
  type HistoryRange,
  partOf,
  rangeOfUrl,
  writeRange,
} from './history-range.ts'

const read = (query: string) => rangeOfUrl(new URLSearchParams(query))
const written = (range: HistoryRange) => {
  const params = new URLSearchParams()
  writeRange(params, range)
  return params.toString()
}

test('a range round-trips through the URL', () => {
  const part = { from: 1_800_000_000, to: 1_800_000_600 }
  for (const range of [DEFAULT_RANGE, { last: 86_400, part: null }, { last: 3_600, part }]) {
    expect(read(written(range))).toEqual(range)
  }
  expect(written(DEFAULT_RANGE)).toBe('')
})

test('a URL without a valid range has the default one', () => {
  for (const query of ['', 'last=7', 'from=5', 'from=x&to=y', 'from=1800000600&to=1800000000']) {
    expect(read(query)).toEqual(DEFAULT_RANGE)
  }
})

test('a drag selects the intervals that it covers, at least a minute', () => {
  expect(partOf(1_800_000_000_000, 1_800_000_110_000, 10)).toEqual({
    ...{ from: 1_800_000_000, to: 1_800_000_120 },
  })
  expect(partOf(1_800_000_110_000, 1_800_000_110_000, 10)).toEqual({
    ...{ from: 1_800_000_060, to: 1_800_000_120 },
  })
})
