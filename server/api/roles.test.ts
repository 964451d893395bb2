import { describe, expect, it } from 'vitest'
import { changesOf } from '../contract/audit-changes.ts'
import { isRewardOpsError } from '../errors.ts'
import { checkRole, MUTATIONS, OPEN, QUERIES, roleNeeded } from './roles.ts'
import { appRouter } from './root.ts'

const procedures = Object.entries(
  appRouter._def.procedures as unknown as Record<string, { _def: { type: string } }>,
).map(([path, { _def }]) => ({ path, type: _def.type }))

describe('the table of roles', () => {
  it('has a row for every mutation there is, and for none that is not', () => {
    const mutations = procedures
      .filter(({ path, type }) => type === 'mutation' && !OPEN.has(path))
      .map(({ path }) => path)
    expect(mutations.length).toBeGreaterThan(20)
    expect(Object.keys(MUTATIONS).toSorted()).toEqual(mutations.toSorted())
  })

  it('has only queries that exist among those that are not every viewer’s', () => {
    const queries = procedures.filter(({ type }) => type === 'query').map(({ path }) => path)
    for (const path of Object.keys(QUERIES)) expect(queries).toContain(path)
  })

  it('notes every change of an admin’s', () => {
    const silent = Object.entries(MUTATIONS).filter(
      ([, { role, audit }]) => role === 'admin' && audit === null,
    )
    expect(silent).toEqual([])
  })

  it('gives what it does not know to admins', () => {
    expect(roleNeeded('some.thing', 'mutation')).toBe('admin')
    expect(roleNeeded('some.thing', 'query')).toBe('viewer')
  })

  it('tells which role is needed, and which the key has', () => {
    const may = (role: 'viewer' | 'trainer' | 'admin', path: string) => {
      try {
        checkRole({ name: 'board', role }, roleNeeded(path, 'mutation'), path)
        return null
      } catch (error) {
        return isRewardOpsError(error) ? `${error.reason}: ${error.message}` : String(error)
      }
    }
    expect(may('viewer', 'servers.register')).toBe(
      'forbidden_role: servers.register needs the role admin, and the key "board" has the role viewer.',
    )
    expect(may('trainer', 'batches.submit')).toBeNull()
    expect(may('trainer', 'keys.create')).toContain('needs the role admin')
    expect(may('admin', 'keys.create')).toBeNull()
  })
})

describe('what is noted of a change', () => {
  it('is what differs, without secrets', () => {
    const before = { state: 'ready', weight: 1, apiKey: 'old', env: null }
    const after = { state: 'draining', weight: 1, apiKey: 'new', env: { A: 'b' } }
    expect(changesOf(before, after)).toEqual([
      { field: 'state', from: '"ready"', to: '"draining"' },
      { field: 'apiKey', from: '"•••"', to: '"•••"' },
      { field: 'env', from: null, to: '"•••"' },
    ])
  })

  it('leaves the credentials of addresses out, deep down too, and cuts what is long', () => {
    const text = JSON.stringify(
      changesOf(null, {
        url: 'https://me:pw@host:8000/x?sig=1',
        command: [{ token: 'hidden', n: 1 }],
        chatTemplate: 'x'.repeat(5_000),
      }),
    )
    for (const secret of ['pw@', 'sig=1', 'hidden']) expect(text).not.toContain(secret)
    expect(text).toContain('https://host:8000/x')
    expect(text.length).toBeLessThan(600)
  })
})
