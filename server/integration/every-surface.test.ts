import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text as textOf } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'

import type { ApiInputs, RawAnswer, RawRequest } from '../../testkit/processes/trpc-call.ts'

import { FULL } from '../../testkit/service/full-run.ts'

import { fuzz } from '../../testkit/service/fuzz/fuzz.ts'
import { fillTarget } from '../../testkit/service/fuzz/target.ts'
import { PROCEDURES } from '../../testkit/service/procedures.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { padding, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import type { SurfaceName } from '../api/surfaces.ts'
import { ROLES, type Role } from '../contract/roles.ts'

const HAS_PAGES = existsSync(new URL('../../.next/BUILD_ID', import.meta.url))
const HOSTILE_CALLS = 130
const ADMIN_KEY = randomBytes(24).toString('base64url')

const folder = mkdtempSync(join(tmpdir(), 'rewardops-functions-'))

let service: Service
let rm: SimulatedServers
const keys = {} as Record<Exclude<Caller, 'none'>, string>

beforeAll(async () => {
  ;[service, rm] = await Promise.all([
    Service.start({
      env: {
        REWARDOPS_WORKERS: '1',
        REWARDOPS_PAGES: HAS_PAGES ? '1' : '0',
        REWARDOPS_API_KEYS: ADMIN_KEY,
        REWARDOPS_FUNCTIONS_DIR: folder,
      },
    }),
    startSimulatedServers(),
  ])
  const api = service.apiWith({ authorization: `Bearer ${ADMIN_KEY}` })
  const create = async (name: Exclude<Caller, 'none'>, key: Omit<CreateKey, 'name'>) => {
    keys[name] = (await api.keys.create.mutate({ name, ...key })).key
  }
  for (const role of ROLES) await create(role, { role })
  await create('submit', { role: 'trainer', access: 'submit' })
  await create('read', { role: 'admin', access: 'read' })
  await create('prefix', { role: 'trainer', runPrefix: 'team/' })
})

afterAll(async () => {
  const problems = service?.log.problems()
  await Promise.all([service?.stop().finally(() => service.destroy()), rm?.stop()])
  rmSync(folder, { recursive: true, force: true })
  expect(problems).toEqual([])
})

type CreateKey = ApiInputs['keys']['create']
/** A caller: a role, a limited key of docs/access-matrix.md, or `none` (no key). */
type Caller = 'none' | Role | 'submit' | 'read' | 'prefix'
const CALLERS: readonly Caller[] = ['none', ...ROLES, 'submit', 'read', 'prefix']

/** The outcome of a request as listed in docs/access-matrix.md. `forbidden`: the key lacks the role or the scope. */
type Outcome = 'admitted' | 'unauthorized' | 'forbidden'

function headersOf(caller: Caller): Record<string, string> {
  return caller === 'none' ? {} : { authorization: `Bearer ${keys[caller]}` }
}

const JSON_TYPE = { 'content-type': 'application/json' }
/**
 * No input has such a field, so an admitted call is refused after the check of its role and scope, and changes nothing.
 * The input names no run, so keys that are limited to runs are refused as well.
 */
const REFUSED_INPUT = '{"":0}'

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
  return caller === 'none' ? 'unauthorized' : 'forbidden'
}

function outcomeOf(reason: string | undefined): Outcome {
  if (reason === 'unauthorized') return reason
  return reason === 'forbidden_role' || reason === 'forbidden_scope' ? 'forbidden' : 'admitted'
}

type HeaderKind = 'data' | 'document' | 'page' | 'file'

const DATA_POLICY =
  "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Headers of every kind of answer; null means that the header is absent. */
const COMMON_HEADERS: Readonly<Record<string, RegExp | null>> = {
  'x-content-type-options': /^nosniff$/,
  'referrer-policy': /^same-origin$/,
  'cross-origin-opener-policy': /^same-origin$/,
  'cross-origin-resource-policy': /^same-origin$/,
  'strict-transport-security': null,
  'access-control-allow-origin': null,
  'x-powered-by': null,
  server: null,
}
const HEADERS: Readonly<Record<HeaderKind, Readonly<Record<string, RegExp | null>>>> = {
  data: {
    'content-security-policy': new RegExp(`^${DATA_POLICY}$`),
    'cache-control': /^no-store(, no-transform)?$/,
  },
  document: {
    'content-security-policy': new RegExp(`^${DATA_POLICY}$`),
    'cache-control': /^private, no-cache$/,
  },
  page: {
    'content-security-policy':
      /^default-src 'self'; script-src 'nonce-[\w+/=]{20,}' 'strict-dynamic'( 'sha256-[\w+/=]{44}')?; (?!.*script-src).*object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'$/,
  },
  file: { 'cache-control': /^public, max-age=31536000, immutable$/ },
}

function expectHeaders({ headers }: Pick<RawAnswer, 'headers'>, kind: HeaderKind, what: string) {
  for (const [name, pattern] of Object.entries({ ...COMMON_HEADERS, ...HEADERS[kind] })) {
    const found = headers[name]
    if (pattern === null) expect(found, `${what}: ${name}`).toBeUndefined()
    else expect(found, `${what}: ${name}`).toMatch(pattern)
  }
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
    for (const caller of FULL ? CALLERS : (['none', 'viewer'] as const)) {
      const headers = { ...headersOf(caller), ...JSON_TYPE }
      await Promise.all(
        called.map(async ([name]) => {
          const [path, request] = send(name)
          const answer = await service.raw(`/api/trpc/${path}`, { ...request, headers })
          const { text } = answer
          const [reason] = reasonsOf(text)
          expectHeaders(answer, 'data', name)
          const expected = documented(`\`${name}\``, caller)
          expect(outcomeOf(reason), `${name} by ${caller}: ${text}`).toBe(expected)
          if (expected === 'admitted') expect(reason, text).toBe('invalid_input')
        }),
      )
    }
  })

  it.each(['application/json', 'application/jsonl'])('in batched calls, as %s', async (accept) => {
    for (const type of ['query', 'mutation']) {
      const called = PROCEDURES.filter(([, { _def }]) => _def.type === type)
      const path = `/api/trpc/${called.map(([name]) => name).join(',')}?batch=1`
      const inputs = called.map((_, i) => `"${i}":${REFUSED_INPUT}`)
      for (const caller of CALLERS) {
        const answer = await service.raw(path, {
          method: 'POST',
          headers: { ...headersOf(caller), ...JSON_TYPE, 'trpc-accept': accept },
          body: `{${inputs.join(',')}}`,
        })
        expectHeaders(answer, 'data', accept)
        const { text } = answer
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

/**
 * One request to each surface that tRPC does not handle, with its row in docs/access-matrix.md. For an admitted caller,
 * the request succeeds or fails for reasons other than access.
 */
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
  it.each(Object.entries(SURFACE_REQUESTS))('%s', async (surface, [row, path, request]) => {
    for (const caller of CALLERS) {
      const headers = { ...request.headers, ...headersOf(caller) }
      const answer = await service.raw(path, { ...request, headers })
      expectHeaders(
        answer,
        surface === 'openapi' && answer.status === 200 ? 'document' : 'data',
        path,
      )
      const { text } = answer
      const found = reasonsOf(text)[0]
      const outcome =
        found === 'image_not_found' && caller === 'prefix' ? 'forbidden' : outcomeOf(found)
      expect(outcome, `${caller}: ${text}`).toBe(documented(row, caller))
    }
  })

  it('docs/access-matrix.md has no rows without a test', () => {
    const rows = [
      ...PROCEDURES.map(([name]) => `\`${name}\``),
      ...Object.values(SURFACE_REQUESTS).map(([row]) => row),
      '`GET /healthz`, `/livez`, `/readyz`',
      '`GET` of pages and their files, which contain no data without a login',
    ]
    expect([...DOCUMENTED.keys()].toSorted()).toEqual(rows.toSorted())
  })
})

interface NamedBatch {
  run: string
  batchId: string
}

const EXAMPLES = new Map(
  Object.entries(
    JSON.parse(readFileSync(new URL('../http/openapi.json', import.meta.url), 'utf8'))
      .paths as Record<string, Record<string, Operation>>,
  ).flatMap(([path, operations]) =>
    Object.values(operations).map(({ requestBody, parameters = [] }) => {
      const content = [requestBody, ...parameters].find((part) => part?.content)?.content
      return [path.replace('/api/trpc/', ''), content?.['application/json']?.example] as const
    }),
  ),
)

interface Operation {
  requestBody?: Described
  parameters?: Described[]
}

interface Described {
  content?: Record<string, { example?: unknown }>
}

it('no answer to a viewer or trainer names a folder of the service', async () => {
  const api = service.apiWith(headersOf('admin'))
  const failing: [path: string, source: string, said: RegExp][] = [
    ['import.ts', "import 'no-such-package'\nexport default () => 1", /imported from import\.ts/],
    [
      'read.ts',
      "import { readFileSync } from 'node:fs'\n" +
        "export default () => readFileSync(new URL('./missing.txt', import.meta.url)).length",
      /open 'missing\.txt'/,
    ],
  ]
  for (const [path, source] of failing) writeFileSync(join(folder, path), source)
  const run = 'folders'
  const { batchId } = await api.batches.submit.mutate({
    ...{ run, step: 1, samples: [sample()] },
    reward: { function: { path: 'read.ts' } },
  })
  await api.batches.wait.query({ batchId, waitMs: 30_000 })
  const folders = [service.dataDir, folder, process.cwd()]
  const expectNoFolder = (text: string, what: string) => {
    const shown = folders.filter((path) => text.includes(path))
    expect(shown, what).toEqual([])
  }
  // A trainer may call everything that a viewer may.
  for (const caller of FULL ? (['viewer', 'trainer'] as const) : (['trainer'] as const)) {
    const admitted = await Promise.all(
      // `live.events` is left out because it sends only topics, and `demo.load` because it takes long.
      PROCEDURES.filter(([path]) => path !== 'live.events' && path !== 'demo.load').map(
        async ([path]) => {
          const input = JSON.stringify(EXAMPLES.get(path) ?? {})
            .replaceAll('gsm8k-grpo', run)
            .replace(/"b12(-\d+)?"/g, (_, index) =>
              JSON.stringify(index ? `${batchId}-0` : batchId),
            )
          const { text, status } = await service.post(path, input, headersOf(caller))
          expectNoFolder(text, `${path} by ${caller}`)
          return status === 200 ? path : null
        },
      ),
    )
    expect(admitted).toEqual(expect.arrayContaining(['about.get', 'rewards.list', 'samples.get']))
  }
  for (const [path, , said] of failing) {
    const reward = { function: { path } }
    const tried = await service.post(
      'samples.score',
      JSON.stringify({ run, step: 2, sample: sample(), reward }),
      headersOf('trainer'),
    )
    expect(tried.text).toMatch(said)
    expectNoFolder(tried.text, path)
  }
  expect(await api.about.get.query()).toMatchObject({ dataDir: service.dataDir })
  expect(await api.rewards.list.query()).toMatchObject({ functions: { folder } })
})

describe('a key with a run prefix', () => {
  const marker = 'kept-from-the-team'
  let own: NamedBatch
  let foreign: NamedBatch

  beforeAll(async () => {
    const api = service.apiWith(headersOf('admin'))
    const batchOf = async (run: string, samples = [sample()]): Promise<NamedBatch> => {
      const { batchId } = await api.batches.submit.mutate({ run, step: 1, samples })
      return { run, batchId }
    }
    own = await batchOf('team/run')
    const marked = sample({ uid: marker, promptId: marker, dataSource: marker, prompt: marker })
    foreign = await batchOf('others/run', [
      {
        ...marked,
        ...{ response: marker, groundTruth: marker, extraInfo: { [marker]: marker } },
        ...{ score: 1, rewardExtraInfo: { [marker]: marker }, verdict: marker, extracted: marker },
      },
    ])
    const { run, batchId } = foreign
    await api.marks.create.mutate({ run, step: 1, label: marker })
    await api.annotations.add.mutate({ samples: [`${batchId}-0`], label: marker, note: marker })
    await api.runs.update.mutate({ run, config: { [marker]: marker }, addTags: [marker] })
  })

  it('calls procedures for its own runs only, and does not learn the runs of batches', async () => {
    for (const [path, { _def }] of PROCEDURES) {
      const fields = _def.meta?.runFields
      if (fields === null || fields === undefined) continue
      const named = ({ run, batchId }: NamedBatch): [string, string][] => [
        ...(fields.runs ?? []).map((field): [string, string] => [field, run]),
        ...(fields.batches ?? []).map((field): [string, string] => [
          field,
          /^(ids?|sample)$/.test(field) ? `${batchId}-0` : batchId,
        ]),
      ]
      const outcome = async (input: Record<string, unknown>) => {
        const body = JSON.stringify({ ...input, '': 0 })
        const { text } = await service.post(path, body, headersOf('prefix'))
        if (!Object.values(input).flat().includes(foreign.run)) {
          expect(text, path).not.toContain(foreign.run)
        }
        return outcomeOf(reasonsOf(text)[0])
      }
      const ownFields = Object.fromEntries(named(own))
      expect(await outcome(ownFields), path).toBe('admitted')
      for (const [field, value] of named(foreign)) {
        expect(await outcome({ ...ownFields, [field]: value }), `${path} ${field}`).toBe(
          'forbidden',
        )
        const both = { ...ownFields, [field]: [ownFields[field], value] }
        expect(await outcome(both), `${path} ${field}`).toBe('forbidden')
      }
    }
  })

  it('gets no answer with data of another run', async () => {
    const batches = [own.batchId, foreign.batchId]
    const runs = [own.run, foreign.run]
    const { faults, kinds } = await fuzz({
      origin: service.url,
      target: {
        pages: HAS_PAGES,
        authorizations: [`Bearer ${keys.prefix}`],
        known: {
          fields: {
            ...{ run: runs, runs: [runs], name: runs, batch: batches, step: [1], stepTo: [1] },
            ...{ first: batches, second: batches, waitMs: [0], timeoutMs: [500] },
          },
          patterns: {
            '^b\\d{1,18}$': batches,
            '^b\\d{1,18}-\\d{1,9}$': batches.map((batch) => `${batch}-0`),
          },
        },
      },
      seed: 17,
      calls: FULL ? 10_000 : 90,
      secrets: [marker],
    })
    expect(faults).toEqual([])
    expect([...kinds.keys()].filter((kind) => kind.endsWith(' 200')).length).toBeGreaterThan(4)
  }, 1_800_000)
})

describe('response headers', () => {
  it('protect data in refusals, health checks and downloads', async () => {
    const { batchId } = await service
      .apiWith(headersOf('trainer'))
      .batches.submit.mutate({ run: 'headers', step: 1, samples: [sample()] })
    const requests: [path: string, request?: RawRequest][] = [
      ...['/healthz', '/livez', '/readyz', '/api/nope', '/api/trpc/nope'].map(
        (path) => [path] as [string],
      ),
      ['/nope', { method: 'POST' }],
      ['/metrics', { method: 'HEAD' }],
      ['/compat/nope/run', { method: 'POST', headers: JSON_TYPE, body: '{}' }],
      ...['csv', 'jsonl', 'verl'].map((format): [string] => [
        `/api/export/samples?batch=${batchId}&format=${format}`,
      ]),
      ['/api/trpc/batches.list', { headers: { origin: 'https://evil.example' } }],
      ['/api/trpc/batches.submit', { method: 'POST', headers: JSON_TYPE, body: '{' }],
    ]
    for (const [path, request] of requests) {
      const headers = { ...headersOf('viewer'), ...request?.headers }
      expectHeaders(await service.raw(path, { ...request, headers }), 'data', path)
    }
  })

  it('protect data in the responses of reward-model servers', async () => {
    await service.apiWith(headersOf('admin')).servers.register.mutate({ name: 'rm', url: rm.url })
    const answer = await service.raw('/classify', {
      method: 'POST',
      headers: { ...headersOf('trainer'), ...JSON_TYPE },
      body: JSON.stringify({ model: rm.model, input: 'x' }),
    })
    expect(answer.status, answer.text).toBe(200)
    expectHeaders(answer, 'data', '/classify')
  })

  it('protect data in streams', async () => {
    const { headers, body } = await fetch(`${service.url}/api/trpc/live.events`, {
      headers: headersOf('viewer'),
    })
    expectHeaders({ headers: Object.fromEntries(headers) }, 'data', 'live.events')
    await body?.cancel()
  })

  it.each([
    'TRACE / HTTP/1.1\r\nHost: localhost',
    'GET * HTTP/1.1\r\nHost: localhost',
    'GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example',
    'no HTTP at all',
    `GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}`,
  ])('protect data in the refusal of %.30j', async (head) => {
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    socket.end(`${head}\r\nConnection: close\r\n\r\n`)
    const [start = '', ...lines] =
      (await textOf(socket)).split('\r\n\r\n', 1)[0]?.split('\r\n') ?? []
    expect(start).toMatch(/^HTTP\/1\.1 4\d\d /)
    const headers = lines.map((line) => {
      const [name = '', ...value] = line.split(': ')
      return [name.toLowerCase(), value.join(': ')]
    })
    expectHeaders({ headers: Object.fromEntries(headers) }, 'data', head.slice(0, 30))
  })

  it.skipIf(!HAS_PAGES)('protect pages: documents, navigation and unknown paths', async () => {
    const paths = [
      '/',
      '/login',
      '/runs',
      '/batches/b1',
      '/runs/a%2Fb',
      '/settings',
      '/nope',
      '/favicon.ico',
    ]
    for (const path of paths) {
      const navigation: Record<string, string>[] = [{}, { rsc: '1' }]
      for (const asked of navigation) {
        const headers = { ...headersOf('viewer'), ...asked }
        const answer = await service.raw(path, { headers })
        expectHeaders(answer, 'page', `${path} ${Object.keys(asked)}`)
      }
    }
    const unreadable = { ...headersOf('viewer'), rsc: '1', 'next-router-state-tree': '%' }
    expectRefusal(await service.raw('/runs/a/prompts', { headers: unreadable }), {
      status: 400,
      reason: 'invalid_input',
      message: 'Next-Router-State-Tree',
    })
  })

  it.skipIf(!HAS_PAGES)(
    'let browsers cache the files of the build, which anyone may load',
    async () => {
      const { text } = await service.raw('/login')
      const files = [...text.matchAll(/"(\/_next\/static\/[^"]+\.(?:js|css|woff2))"/g)]
      expect(files.length).toBeGreaterThan(2)
      for (const [, path = ''] of files) expectHeaders(await service.raw(path), 'file', path)
    },
  )
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

it('hostile calls of every surface get documented answers without internals', async () => {
  const pids = await service.pids()
  const target = await fillTarget(service, rm, {
    adminKey: ADMIN_KEY,
    functions: folder,
    pages: HAS_PAGES,
  })
  const { faults, calls } = await fuzz({
    origin: service.url,
    target,
    seed: 17,
    calls: HOSTILE_CALLS,
    secrets: [service.dataDir, process.cwd()],
  })
  expect(faults).toEqual([])
  expect(calls).toBe(HOSTILE_CALLS)
  expect(await service.pids()).toEqual(pids)
}, 180_000)
