import { expect, test } from 'vitest'
import { fieldOf, ROW_FIELDS, snakeCase, withFields } from './sample-fields.ts'

test('copies fields in place, with null for missing ones', () => {
  const target = { index: 3 }
  const source: { tokens?: number; note: string; other: boolean } = { note: 'x', other: true }
  const copied = withFields(target, source, ['tokens', 'note'])
  copied satisfies { index: number; tokens: number | null; note: string }
  expect(copied).toBe(target)
  expect(copied).toEqual({ index: 3, tokens: null, note: 'x' })
})

test('`responseLength` is `response_length` in SQL and `length` in the Samples table', () => {
  expect(ROW_FIELDS).toContain('responseLength')
  expect(snakeCase('responseLength')).toBe('response_length')
  expect(fieldOf('responseLength').tableColumn).toBe('length')
})
