import { expect, it } from 'vitest'
import type { Database } from '../store/database.ts'
import { checkRuns } from './run-scope.ts'

it('finds the run of a batch that was known and is named with new ones', async () => {
  const db = {
    rows: async (_: string, __: string, [ids]: [number[]]) => ids.map((id) => ({ id, run: 'a-1' })),
  } as unknown as Database
  const caller = { name: 'k', scope: { runPrefix: 'a-' } } as Parameters<typeof checkRuns>[1]
  const check = (batches: string[]) => checkRuns(db, caller, 'the call', { batches })
  await check(Array.from({ length: 10_000 }, (_, at) => `b${at + 1}`))
  await expect(check(['b1', 'b10001'])).resolves.toBeUndefined()
  await Promise.all([check(['b2', 'b10002']), check(['b3', 'b10003', 'b10004'])])
  await check(Array.from({ length: 10_004 }, (_, at) => `b${at + 1}`))
})
