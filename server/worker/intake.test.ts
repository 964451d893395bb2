import { expect, test, vi } from 'vitest'
import { createLogger } from '../log.ts'
import { FUNCTIONS_POOL, INTERACTIVE_POOL, RULES_POOL } from '../store/job-queue.ts'
import { Intake, type IntakeHost } from './intake.ts'

const HOST: Omit<IntakeHost, 'unwritten'> = {
  slotsOf: () => 0,
  fairShareOf: () => 0,
  wantSlots: () => {},
  functionCapacity: () => 0,
  limiterCapacity: () => 0,
  take: () => {},
}

test('no samples are fetched while as many results are unwritten as a worker may have samples', async () => {
  const fetch = vi.fn(async () => [])
  let unwritten = 4_096
  const host = { ...HOST, unwritten: () => unwritten }
  const intake = new Intake({ fetch } as never, host, createLogger('silent', 'test'))
  intake.pump(RULES_POOL)
  expect(fetch).not.toHaveBeenCalled()
  // Interactive samples are fetched despite the unwritten results, because their callers wait.
  intake.pump(INTERACTIVE_POOL)
  expect(fetch).toHaveBeenLastCalledWith(INTERACTIVE_POOL, 16, [])
  unwritten -= 96
  intake.written()
  expect(fetch).toHaveBeenCalledWith(RULES_POOL, 2, [])
  intake.close()
})

test('written results cause no fetches of pools that lack capacity of their own', () => {
  const fetch = vi.fn(async () => [])
  const host = { ...HOST, unwritten: () => 10 }
  const intake = new Intake({ fetch } as never, host, createLogger('silent', 'test'))
  intake.count(RULES_POOL, 256, 0)
  intake.pump(RULES_POOL)
  intake.pump(FUNCTIONS_POOL)
  intake.written()
  expect(fetch).not.toHaveBeenCalled()
  intake.close()
})
