import { describe, expect, it } from 'vitest'
import { RewardOpsError } from '../errors.ts'
import type { RequestContext } from './context.ts'
import { appRouter } from './root.ts'
import { createCallerFactory } from './trpc.ts'

const diskFull = Object.assign(new Error('could not extend file'), { code: '53100' })

/** Calls `runs.get` while its module throws `error`. Returns the refusal, and the outages reported to readiness. */
async function failing(error: unknown, input: unknown = { name: 'r' }) {
  const suspected: unknown[] = []
  const context = {
    actor: { name: 'local', role: 'admin', scope: null },
    requestId: 'r1',
    runs: {
      get: () => Promise.reject(error),
    },
    readiness: { suspect: (outage: unknown) => suspected.push(outage) },
  } as unknown as RequestContext
  const call = createCallerFactory(appRouter)(context)
  const refusal = await call.runs.get(input as { name: string }).catch((thrown) => thrown)
  return { code: refusal.code, cause: refusal.cause, suspected }
}

describe('an error of a module', () => {
  it('is database_unavailable after an outage, and readiness gets the original error', async () => {
    expect(await failing(diskFull)).toEqual({
      code: 'SERVICE_UNAVAILABLE',
      cause: expect.objectContaining({ reason: 'database_unavailable', retryAfterMs: 1_000 }),
      suspected: [diskFull],
    })
  })

  it('is query_timeout if its query exceeded the time limit', async () => {
    const stopped = Object.assign(new Error('canceling statement'), { code: '57014' })
    expect(await failing(stopped)).toMatchObject({
      cause: { reason: 'query_timeout' },
      suspected: [],
    })
  })

  it('is passed on unchanged if it is a refusal, or unknown', async () => {
    const refused = new RewardOpsError('run_not_found', 'There is no run "r".')
    expect(await failing(refused)).toEqual({ code: 'NOT_FOUND', cause: refused, suspected: [] })
    const unknown = new Error('broken')
    expect(await failing(unknown)).toEqual({
      code: 'INTERNAL_SERVER_ERROR',
      cause: unknown,
      suspected: [],
    })
  })

  it('is not an outage if invalid input contains the message of an outage', async () => {
    const wrong = await failing(null, { name: 'r', 'too many clients': 1 })
    expect(wrong).toMatchObject({ code: 'BAD_REQUEST', suspected: [] })
  })
})
