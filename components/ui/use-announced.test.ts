import { describe, expect, test } from 'vitest'
import { announce } from './use-announced.ts'

const split = (rows: string, before: string, more = false) => {
  const { shown, fresh } = announce([...rows], (row) => row, [...before], more)
  return [shown.join(''), fresh.join('')]
}

describe('announce', () => {
  test('shows all rows of a new list', () => {
    expect(split('cba', '')).toEqual(['cba', ''])
  })

  test('announces rows above and between known ones', () => {
    expect(split('xcba', 'cba')).toEqual(['cba', 'x'])
    expect(split('cxba', 'cba')).toEqual(['cba', 'x'])
  })

  test('shows rows after the last known one', () => {
    expect(split('cbazy', 'cba')).toEqual(['cbazy', ''])
  })

  test('removes a row that no longer matches the filter', () => {
    expect(split('ca', 'cba')).toEqual(['ca', ''])
    expect(split('cb', 'cba')).toEqual(['cb', ''])
  })

  test('keeps rows that new ones pushed off the page', () => {
    expect(split('yxc', 'cba', true)).toEqual(['cba', 'yx'])
    expect(split('zyx', 'cba', true)).toEqual(['zyx', ''])
  })
})
