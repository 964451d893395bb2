import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { withTimeout } from './with-timeout.ts'

it('returns a result or throws a failure that comes in time', async () => {
  expect(await withTimeout(Promise.resolve(1), 60_000)).toBe(1)
  await expect(withTimeout(Promise.reject(new Error('away')), 60_000)).rejects.toThrow('away')
})

it('returns null when late, and ignores a later failure', async () => {
  const work = Promise.withResolvers<number>()
  expect(await withTimeout(work.promise, 1)).toBeNull()
  work.reject(new Error('away'))
  await turn()
})
