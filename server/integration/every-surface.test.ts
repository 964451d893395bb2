import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RawRequest } from '../../testkit/processes/trpc-call.ts'
import { PROCEDURES } from '../../testkit/service/procedures.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { padding, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import type { SurfaceName } from '../api/roles.ts'
import { ROLES, type Role } from '../contract/roles.ts'

/** Every procedure and every other request, with every role. */

const ADMIN_KEY = randomBytes(24).toString('base64url')

let service: Service
const keys = {} as Record<Role, string>

beforeAll(async () => {
  service = await Service.start({
    env: { REWARDOPS_WORKERS: '1', REWARDOPS_API_KEYS: ADMIN_KEY },
  })
  const api = service.apiWith({ authorization: `Bearer ${ADMIN_KEY}` })
  for (const role of ROLES) keys[role] = (await api.keys.create.mutate({ name: role, role })).key
})

afterAll(async () => {
  const problems = service?.log.problems()
  await service?.stop().finally(() => service.destroy())
  expect(problems).toEqual([])
})

/** A caller: a role, or none without a key. */
type Caller = Role | 'none'
const CALLERS: readonly Caller[] = ['none', ...ROLES]

/** The outcome of a request as docs/access-matrix.md has it. */
type Outcome = 'admitted' | 'unauthorized' | 'forbidden_role'

function headersOf(caller: Caller): Record<string, string> {
  return caller === 'none' ? {} : { authorization: `Bearer ${keys[caller]}` }
}

const JSON_TYPE = { 'content-type': 'application/json' }
/** No input has such a field, so an admitted call is refused after the check of its role and changes nothing. */
const REFUSED_INPUT = '{"":0}'

/** The rows of docs/access-matrix.md: who is admitted to a request. */
const DOCUMENTED = new Map(
  readFileSync(new URL('../../docs/access-matrix.md', import.meta.url), 'utf8')
    .split('\n')
    .filter((line) => /^\| .*[`✓]/.test(line))
    .map((line) => {
      const [request = '', ...cells] = line.slice(2, -2).split(' | ')
      const admitted = CALLERS.filter((_, i) => cells[i]?.trim() === '✓')
      return [request, admitted]
    }),
)

function documented(request: string, caller: Caller): Outcome {
  const admitted = DOCUMENTED.get(request)
  if (admitted === undefined) throw new Error(`docs/access-matrix.md has no row for ${request}`)
  if (admitted.includes(caller)) return 'admitted'
  return caller === 'none' ? 'unauthorized' : 'forbidden_role'
}

/** The outcome of an answer, or of one of the answers of a batched call, by its reason. */
function outcomeOf(reason: string | undefined): Outcome {
  return reason === 'unauthorized' || reason === 'forbidden_role' ? reason : 'admitted'
}

const reasonsOf = (text: string) =>
  [...text.matchAll(/"reason":"(\w+)"/g)].map(([, found]) => found)

describe('each procedure admits the roles of docs/access-matrix.md', () => {
  const ways: [way: string, types: string, send: (path: string) => [path: string, RawRequest]][] = [
    ['as POST', 'query mutation', (path) => [path, { method: 'POST', body: REFUSED_INPUT }]],
    ['as GET', 'query subscription', (path) => [`${path}?input=${REFUSED_INPUT}`, {}]],
  ]
  it.each(ways)('%s', async (_, types, send) => {
    const called = PROCEDURES.filter(([, { _def }]) => types.includes(_def.type))
    expect(called.length).toBeGreaterThan(50)
    for (const caller of CALLERS) {
      const headers = { ...headersOf(caller), ...JSON_TYPE }
      await Promise.all(
        called.map(async ([name]) => {
          const [path, request] = send(name)
          const { text } = await service.raw(`/api/trpc/${path}`, { ...request, headers })
          const [reason] = reasonsOf(text)
          const expected = documented(`\`${name}\``, caller)
          expect(outcomeOf(reason), `${name} by ${caller}: ${text}`).toBe(expected)
          if (expected === 'admitted') expect(reason, text).toBe('invalid_input')
        }),
      )
    }
  })

  it.each(['application/json', 'application/jsonl'])('in batched calls, as %s', async (accept) => {
    for (const type of ['query', 'mutation']) {
      // They include the procedures of the session, which need no key, beside all others of the type.
      const called = PROCEDURES.filter(([, { _def }]) => _def.type === type)
      const path = `/api/trpc/${called.map(([name]) => name).join(',')}?batch=1`
      const inputs = called.map((_, i) => `"${i}":${REFUSED_INPUT}`)
      for (const caller of CALLERS) {
        const { text } = await service.raw(path, {
          method: 'POST',
          headers: { ...headersOf(caller), ...JSON_TYPE, 'trpc-accept': accept },
          body: `{${inputs.join(',')}}`,
        })
        const answered = new Map(
          [...text.matchAll(/"reason":"(\w+)"[^{}]*?"path":"([\w.]+)"/g)].map(
            ([, reason, name]) => [name as string, outcomeOf(reason)],
          ),
        )
        const expected = called.map(([name]) => [name, documented(`\`${name}\``, caller)] as const)
        expect(answered, caller).toEqual(new Map(expected))
      }
    }
  })
})

/** One request to each part outside tRPC, with the row of the document. Admitted, it is answered or refused by itself. */
const SURFACE_REQUESTS: Readonly<
  Record<SurfaceName, [row: string, path: string, request: RawRequest]>
> = {
  'batches.submit': [
    '`batches.submit` with more than 1 MiB',
    '/api/trpc/batches.submit',
    { method: 'POST', headers: JSON_TYPE, body: `{"":"${padding(2 << 20)}"}` },
  ],
  'batches.append': [
    '`batches.append` with more than 1 MiB',
    '/api/trpc/batches.append',
    { method: 'POST', headers: JSON_TYPE, body: `{"":"${padding(2 << 20)}"}` },
  ],
  'samples.score': [
    '`samples.score` outside a batched call',
    '/api/trpc/samples.score',
    { method: 'POST', headers: JSON_TYPE, body: REFUSED_INPUT },
  ],
  dialects: [
    '`/compat/…`',
    '/compat/slime/matrix?rule=gsm8k',
    { method: 'POST', headers: JSON_TYPE, body: JSON.stringify({ ...sample(), label: 72 }) },
  ],
  export: ['`GET /api/export/samples`', '/api/export/samples?run=none', {}],
  images: ['`GET /api/images/…`', `/api/images/${'0'.repeat(64)}`, {}],
  openapi: ['`GET /api/openapi.json`', '/api/openapi.json', {}],
  metrics: ['`GET /metrics`', '/metrics', {}],
  models: ['`GET /v1/models`', '/v1/models', {}],
  router: [
    '`POST` to the router address',
    '/v1/embeddings',
    { method: 'POST', headers: JSON_TYPE, body: '{"model":"none","input":"x"}' },
  ],
}

describe('each other request admits the roles of docs/access-matrix.md', () => {
  it.each(Object.entries(SURFACE_REQUESTS))('%s', async (_, [row, path, request]) => {
    for (const caller of CALLERS) {
      const headers = { ...request.headers, ...headersOf(caller) }
      const { text } = await service.raw(path, { ...request, headers })
      expect(outcomeOf(reasonsOf(text)[0]), `${caller}: ${text}`).toBe(documented(row, caller))
    }
  })

  it('the document has no other row than those of the tests', () => {
    const rows = [
      ...PROCEDURES.map(([name]) => `\`${name}\``),
      ...Object.values(SURFACE_REQUESTS).map(([row]) => row),
      '`GET /healthz`, `/livez`, `/readyz`',
      '`GET` of pages and their files, which hold no data without a login',
    ]
    expect([...DOCUMENTED.keys()].toSorted()).toEqual(rows.toSorted())
  })
})

it.each(['/runs/%ff', '/servers/%', '/compat/slime/%zz'])(
  '%s is refused for its escape',
  async (path) => {
    const headers = headersOf('admin')
    expectRefusal(await service.raw(path, { headers }), {
      status: 400,
      reason: 'invalid_input',
      message: 'invalid % escape',
      hint: /%25/,
    })
  },
)
