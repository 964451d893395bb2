import { describe, expect, it } from 'vitest'
import type { KeyScope } from '../admin/key-holder.ts'
import type { Role } from '../contract/roles.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import type { RequestContext } from './context.ts'
import { appRouter } from './root.ts'
import { Scopes } from './scopes.ts'
import { createCallerFactory, procedure, router } from './trpc.ts'

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

describe('a procedure without meta', () => {
  const bare = router({
    change: procedure.mutation(() => 'done'),
    read: procedure.query(() => 'done'),
  })
  const noted: unknown[] = []

  async function call(name: 'change' | 'read', role: Role, scope: KeyScope | null) {
    const context = {
      actor: { name: 'key', role, scope },
      scopes: new Scopes({} as Database),
      audit: { note: async (entry: unknown) => void noted.push(entry) },
    } as unknown as RequestContext
    const caller = createCallerFactory(bare)(context)
    return caller[name]().catch(({ cause }) => cause.reason)
  }

  it('requires the role admin and is recorded if it is a mutation', async () => {
    expect(await call('change', 'viewer', null)).toBe('forbidden_role')
    expect(await call('change', 'trainer', null)).toBe('forbidden_role')
    expect(noted).toEqual([])
    expect(await call('change', 'admin', null)).toBe('done')
    expect(noted).toMatchObject([{ action: 'change', actor: 'key', target: '' }])
    expect(await call('read', 'viewer', null)).toBe('done')
  })

  it('is closed to keys with a run prefix or the access `submit`', async () => {
    for (const name of ['change', 'read'] as const) {
      for (const scope of [
        { access: 'full', runPrefix: 'team/' },
        { access: 'submit', runPrefix: null },
      ] as const) {
        expect(await call(name, 'admin', scope), name).toBe('forbidden_scope')
      }
    }
    expect(await call('change', 'admin', { access: 'read', runPrefix: null })).toBe(
      'forbidden_scope',
    )
  })
})
