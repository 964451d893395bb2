import { expect, test } from 'vitest'
import { configText } from './run-cells.tsx'

test('only numbers close to zero have an exponent', () => {
  expect([1e-6, -5e-4, 0.001, 0, -0.5, -2, 64, 'adam'].map(configText)).toEqual([
    ...['1e-6', '-5e-4', '0.001', '0', '-0.5', '-2', '64', 'adam'],
  ])
})
