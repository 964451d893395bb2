import { describe, expect, test } from 'vitest'
import {
  durationText,
  formatBytes,
  formatCompact,
  formatCount,
  formatPoints,
  formatRate,
  formatScore,
  formatSigned,
  justBelow,
  newestText,
  percentText,
  plural,
  quantityText,
  readInteger,
  readNumber,
} from './numbers.ts'

describe('numbers', () => {
  test('justBelow returns the next smaller double', () => {
    expect(justBelow(1)).toBe(1 - Number.EPSILON / 2)
    expect(justBelow(-1)).toBe(-1 - Number.EPSILON)
    expect(justBelow(0)).toBe(-Number.MIN_VALUE)
    expect(justBelow(0.3)).toBeLessThan(0.3)
  })

  test('scores keep enough digits and never round to 0', () => {
    expect([0, 1, -1, 0.25, -0.3333333, 1234.567].map(formatScore)).toEqual([
      '0',
      '1',
      '−1',
      '0.250',
      '−0.333',
      '1234.6',
    ])
    expect(formatScore(0.0000421)).toBe('4.21e−5')
    expect(formatScore(-0.0000421)).toBe('−4.21e−5')
    expect(formatScore(null)).toBe('–')
    expect(formatScore(Number.NaN)).toBe('–')
  })

  test('differences of scores have a plus or minus sign', () => {
    expect([0.25, -0.25, 0, null, Number.POSITIVE_INFINITY].map(formatSigned)).toEqual([
      ...['+0.250', '−0.250', '0', '–', '–'],
    ])
  })

  test('the note of a list says whether the list is cut', () => {
    expect([newestText(3, false), newestText(1_000, true)]).toEqual([
      ...['3, newest first', 'Newest 1,000'],
    ])
  })

  test('typed integers may have thousands separators; fractions are not integers', () => {
    const typed = ['1000', '1,000', ' 1 000 000 ', '1.000', '12_345', '−100', '0', '-1,000']
    expect(typed.map(readInteger)).toEqual([1e3, 1e3, 1e6, 1e3, 12_345, -100, 0, -1e3])
    for (const text of ['0.5', '1.5', '1,0', '1000,000', '0.500', '10 0', 'lots', '']) {
      expect(readInteger(text)).toBeNaN()
    }
  })

  test('typed numbers may have thousands separators or a decimal comma', () => {
    const typed = ['0.5', '0,5', '1,200', '1 200', '1,200.5', '12,5', '−0.25', '1e-3', '0,500']
    const values = [0.5, 0.5, 1_200, 1_200, 1_200.5, 12.5, -0.25, 0.001, 0.5]
    expect(typed.map(readNumber)).toEqual(values)
    for (const text of ['', ' ', 'lots', '1,2,3', 'Infinity', '1.5.0']) {
      expect(readNumber(text)).toBeNaN()
    }
  })

  test('durations have a readable unit', () => {
    expect(
      [0, 0.0042, 0.42, 9.94, 118.4, 999.6, 1240, 12_140, 59_949, 125_000, 3_600_000].map(
        durationText,
      ),
    ).toEqual([
      '0\u00a0ms',
      '4.2\u00a0µs',
      '0.42\u00a0ms',
      '9.9\u00a0ms',
      '118\u00a0ms',
      '1.00\u00a0s',
      '1.24\u00a0s',
      '12.1\u00a0s',
      '59.9\u00a0s',
      '2:05\u00a0min',
      '1:00\u00a0h',
    ])
    expect(durationText(3 * 86_400_000)).toBe('3\u00a0d')
    expect(durationText(null)).toBe('–')
  })

  test('100 % means all, and 0 % means none', () => {
    expect([0, 0.0003, 0.012, 0.0996, 0.5, 0.9996, 1].map(percentText)).toEqual([
      '0\u00a0%',
      '<0.1\u00a0%',
      '1.2\u00a0%',
      '10\u00a0%',
      '50\u00a0%',
      '>99.9\u00a0%',
      '100\u00a0%',
    ])
    expect(percentText(0.9968)).toBe('99.6\u00a0%')
    expect(percentText(null)).toBe('–')
  })

  test('differences of shares have a sign, and only 0 becomes 0', () => {
    expect([0, 0.0004, -0.0425, 0.125, -1, 0.01].map(formatPoints)).toEqual([
      { value: '0', unit: 'points' },
      { value: '+0.04', unit: 'points' },
      { value: '−4.3', unit: 'points' },
      { value: '+13', unit: 'points' },
      { value: '−100', unit: 'points' },
      { value: '+1', unit: 'point' },
    ])
  })

  test('counts, rates and bytes have a readable unit', () => {
    expect(formatCount(1234567)).toBe('1,234,567')
    expect([999, 9999, 12_345, 4_050_000].map(formatCompact)).toEqual([
      '999',
      '9,999',
      '12.3k',
      '4.05M',
    ])
    expect([0, 0.02, 0.7, 9.94, 9.96, 158.6, 12_345].map(formatRate)).toEqual([
      '0',
      '<0.1',
      '0.7',
      '9.9',
      '10',
      '159',
      '12.3k',
    ])
    expect(quantityText(formatBytes(182 * 1024 * 1024))).toBe('182\u00a0MiB')
    expect([plural(1, 'batch', 'batches'), plural(0, 'batch', 'batches')]).toEqual([
      '1 batch',
      '0 batches',
    ])
  })
})
