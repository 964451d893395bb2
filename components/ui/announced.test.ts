import { describe, expect, test } from 'vitest'
import { announce } from './announced.ts'

const split = (rows: string, before: string, more = false) => {
  const { shown, fresh } = announce([...rows], (row) => row, [...before], more)
  return [shown.join(''), fresh.join('')]
}

describe('new rows are announced', () => {
  test('everything belongs to a list that is seen for the first time', () => {
    expect(split('cba', '')).toEqual(['cba', ''])
  })

  test('rows above and between known ones wait', () => {
    expect(split('xcba', 'cba')).toEqual(['cba', 'x'])
    expect(split('cxba', 'cba')).toEqual(['cba', 'x'])
  })

  test('rows behind the last known one were scrolled to', () => {
    expect(split('cbazy', 'cba')).toEqual(['cbazy', ''])
  })

  test('a row that no longer fits the filter goes', () => {
    expect(split('ca', 'cba')).toEqual(['ca', ''])
    expect(split('cb', 'cba')).toEqual(['cb', ''])
  })

  test('rows that new ones pushed off the page stay', () => {
    expect(split('yxc', 'cba', true)).toEqual(['cba', 'yx'])
    expect(split('zyx', 'cba', true)).toEqual(['zyx', ''])
  })
})
