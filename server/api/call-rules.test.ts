import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { IDEMPOTENT } from '../../packages/client-typescript/src/resilient-link.ts'
import { PROCEDURES } from '../../testkit/service/procedures.ts'
import type { AuditEntryDto } from '../contract/audit.ts'
import { UpdateServerInput } from '../contract/servers.ts'
import { isRewardOpsError } from '../errors.ts'
import { audit, changesOf } from './audit.ts'
import { checkRole, rulesOf } from './call-rules.ts'
import type { Modules } from './context.ts'
import type { Audited } from './procedure-meta.ts'

const metaOf = new Map(PROCEDURES.map(([path, { _def }]) => [path, _def.meta]))

const MUTATIONS = PROCEDURES.filter(
  ([, { _def }]) => _def.type === 'mutation' && !_def.meta?.isOpen,
).map(([path]) => path)

const auditedOf = (path: string): Audited => {
  const audited = metaOf.get(path)?.audit
  if (!audited) throw new Error(`${path} is not recorded`)
  return audited
}

describe('the access rules of procedures', () => {
  it('state the role and the audit entry of every mutation', () => {
    expect(MUTATIONS.length).toBeGreaterThan(20)
    const silent = MUTATIONS.filter((path) => {
      const { role, audit } = metaOf.get(path) ?? {}
      return role === undefined || audit === undefined
    })
    expect(silent).toEqual([])
  })

  it('tell the Python client which mutations it must not repeat', () => {
    const file = '../../packages/client-python/src/rewardops/repeatable.py'
    const python = readFileSync(new URL(file, import.meta.url), 'utf8')
    const listed = (name: string) =>
      [...(python.split(`${name} = frozenset(`)[1]?.split(')')[0] ?? '').matchAll(/"(.+?)"/g)]
        .map(([, path]) => path)
        .sort()
    const once = PROCEDURES.filter(([, { _def }]) => _def.type === 'mutation')
      .map(([path]) => path)
      .filter((path) => !IDEMPOTENT.has(path) && !listed('KEYED').includes(path))
    expect(listed('NOT_REPEATABLE')).toEqual(once.sort())
  })

  it('require a key, except for reading the session, signing in and signing out', () => {
    const open = PROCEDURES.filter(([, { _def }]) => _def.meta?.isOpen).map(([path]) => path)
    expect(open).toEqual(['session.get', 'session.signIn', 'session.signOut'])
  })

  it('record every mutation that only admins may call', () => {
    const silent = MUTATIONS.filter((path) => {
      const meta = metaOf.get(path)
      return meta?.role === 'admin' && meta.audit === null
    })
    expect(silent).toEqual([])
  })

  it('are strict without meta', () => {
    const closed = { forSubmitKeys: false, runFields: undefined }
    expect(rulesOf('mutation', undefined)).toEqual({ role: 'admin', isChange: true, ...closed })
    expect(rulesOf('query', undefined)).toEqual({ role: 'viewer', isChange: false, ...closed })
  })

  it('refuse callers with an error that names the required role and the role of the key', () => {
    const may = (role: 'viewer' | 'trainer' | 'admin', path: string) => {
      try {
        checkRole({ name: 'board', role }, rulesOf('mutation', metaOf.get(path)).role, path)
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

describe('the recorded fields of a change', () => {
  it('are those with different values, without secrets', () => {
    const before = { state: 'ready', weight: 1, apiKey: 'old', env: null }
    const after = { state: 'draining', weight: 1, apiKey: 'new', env: { A: 'b' } }
    expect(changesOf(before, after)).toEqual([
      { field: 'state', from: '"ready"', to: '"draining"' },
      { field: 'apiKey', from: '"•••"', to: '"•••"' },
      { field: 'env', from: null, to: '"•••"' },
    ])
  })

  it('contain no credentials of URLs at any depth, and are cut if long', () => {
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

describe('the audit entry of servers.update', () => {
  const fields = Object.keys(UpdateServerInput.shape).filter((f) => f !== 'id' && f !== 'name')
  const column = (field: string) => (field === 'route' ? 'namedRoute' : field)

  it.each(fields)('has the old and the new value of %s', async (field) => {
    const value = field === 'url' ? 'http://rm:9000' : `new ${field}`
    const before = Object.fromEntries(fields.map((f) => [column(f), null]))
    let row: object = { name: 'rm', state: 'ready', warnings: [], ...before }
    const entries: Omit<AuditEntryDto, 'id' | 'at'>[] = []
    const modules = {
      models: { find: async () => row },
      servers: { get: async () => row },
      audit: { note: async (entry: (typeof entries)[number]) => void entries.push(entry) },
    } as unknown as Modules
    const input = async () => ({ name: 'rm', [field]: value })
    await audit(
      {
        ...{ modules, input, actor: { name: 'me', role: 'admin' } },
        ...{ path: 'servers.update', audited: auditedOf('servers.update') },
      },
      async () => {
        row = { ...row, [column(field)]: value }
        return { ok: true, data: { name: 'rm' } }
      },
    )
    const is = field === 'apiKey' ? '"•••"' : JSON.stringify(field === 'url' ? `${value}/` : value)
    expect(entries.map(({ target, changes }) => ({ target, changes }))).toEqual([
      { target: 'rm', changes: [{ field, from: null, to: is }] },
    ])
  })
})

describe('the audit entry of a change that the object does not show', () => {
  it('has the input, without the URL and the secret of a webhook', async () => {
    const entries: Omit<AuditEntryDto, 'id' | 'at'>[] = []
    const webhook = { id: 'w1', name: 'ops', displayUrl: 'https://host/…abcd', signed: true }
    const modules = {
      webhooks: { list: async () => [webhook] },
      audit: { note: async (entry: (typeof entries)[number]) => void entries.push(entry) },
    } as unknown as Modules
    const input = async () => ({ id: 'w1', url: 'https://host/T0/xyzabcd', secret: 'sesame-open' })
    await audit(
      {
        ...{ modules, input, actor: { name: 'me', role: 'admin' } },
        ...{ path: 'alerts.update', audited: auditedOf('alerts.update') },
      },
      async () => ({ ok: true, data: { name: 'ops' } }),
    )
    expect(entries[0]?.changes).toEqual([
      { field: 'url', from: null, to: '"•••"' },
      { field: 'secret', from: null, to: '"•••"' },
    ])
  })
})
