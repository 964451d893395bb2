import { expect, test } from 'vitest'
import { rowToOpen } from './open-row.ts'

const rows = ['a', 'b', 'c']

test('J and K continue from the row that is open or was open last', () => {
  for (const isOpen of [true, false]) {
    expect(rowToOpen(rows, 1, 1, isOpen)).toBe('c')
    expect(rowToOpen(rows, 1, -1, isOpen)).toBe('a')
  }
})

test('without such a row, the first row opens', () => {
  expect(rowToOpen(rows, -1, 1, false)).toBe('a')
  expect(rowToOpen(rows, -1, -1, true)).toBe('a')
  expect(rowToOpen([], -1, 1, false)).toBeUndefined()
})

test('at the end of the list, a closed row opens again and an open one stays', () => {
  expect(rowToOpen(rows, 2, 1, false)).toBe('c')
  expect(rowToOpen(rows, 0, -1, false)).toBe('a')
  expect(rowToOpen(rows, 2, 1, true)).toBeUndefined()
})
