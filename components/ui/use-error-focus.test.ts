import { expect, test } from 'vitest'
import { firstError } from './use-error-focus.ts'

const form = (...selectors: string[]) => ({
  querySelector: (selector: string) =>
    (selectors.find((one) => selector.startsWith(one)) ?? null) as never,
})

test('an invalid field comes before the text of an error', () => {
  const [field, text] = ['[aria-invalid="true"]', '[role="alert"]']
  expect(firstError(form(text, field))).toBe(field)
  expect(firstError(form(text))).toBe(text)
  expect(firstError(form())).toBeNull()
})
