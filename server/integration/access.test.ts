import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RawAnswer } from '../../testkit/processes/trpc-call.ts'
import { FULL, inFullRun } from '../../testkit/service/full-run.ts'
import { parsePrometheusText, seriesValue } from '../../testkit/service/prometheus-text.ts'
import { expectRefusal, nothingStored } from '../../testkit/service/refusals.ts'
import { sample } from '../../testkit/service/rollouts.ts'
import { environment, runToEnd, Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const KEYS = ['pT4wZ81mQx7RkV0s9LcB', 'n3HgY6uJd2WfE5aX8tKo'] as const
const SCRAPER_KEY = 'zR5mVb8QkT1xNc7Yw4Hd'
const submission = { run: 'access', step: 1, samples: [sample()] }
const large = { ...submission, samples: [sample({ response: 'x'.repeat(2 << 20) })] }
const requiresKey = { status: 401, reason: 'unauthorized', message: 'key' } as const

let open: Service
let keyed: Service

beforeAll(async () => {
  const none = { REWARDOPS_WORKERS: '0' }
  ;[open, keyed] = await Promise.all([
    Service.start({ env: none }),
    Service.start({
      env: {
        ...none,
        REWARDOPS_API_KEYS: [...KEYS, `viewer:${SCRAPER_KEY}`].join(', '),
        REWARDOPS_BASE_PATH: '/rewardops',
        REWARDOPS_ALLOWED_HOSTS: 'Rewards.example.org',
        REWARDOPS_TRUSTED_PROXIES: '127.0.0.0/8, ::1',
      },
    }),
  ])
})

afterAll(async () => {
  const problems = [open, keyed].map((service) => service?.log.problems())
  await Promise.all([open, keyed].map((s) => s?.stop().finally(() => s.destroy())))
  expect(problems).toEqual([[], []])
})

const submit = (service: Service, headers: Record<string, string>, body: object = submission) =>
  service.post('batches.submit', JSON.stringify(body), headers)

describe('with keys', () => {
  const wrong: [what: string, headers: Record<string, string>][] = [
    ['no key', {}],
    ['a wrong key', { authorization: `Bearer ${KEYS[0].slice(0, -1)}x` }],
    ['a prefix of a key', { authorization: `Bearer ${KEYS[0].slice(0, -1)}` }],
    ['both keys together', { authorization: `Bearer ${KEYS.join(', ')}` }],
    ['an empty key', { authorization: 'Bearer ' }],
    ['another scheme', { authorization: `Basic ${btoa(`:${KEYS[0]}`)}` }],
    ['a key as the cookie', { cookie: `rewardops_session=${KEYS[0]}` }],
    ['an unknown cookie', { cookie: `rewardops_session=${'0'.repeat(43)}` }],
    ['a key with a suffix', { authorization: `Bearer ${KEYS[0]}x` }],
  ]
  it.each(wrong)('refuses %s, with small and large bodies', (_, headers) =>
    nothingStored(keyed, async () => {
      expectRefusal(await submit(keyed, headers), { ...requiresKey, hint: /Bearer/ })
      expectRefusal(await submit(keyed, headers, large), requiresKey)
      expectRefusal(await keyed.raw('/api/trpc/batches.list', { headers }), requiresKey)
    }),
  )

  it('serves the OpenAPI document to keys, with an ETag', async () => {
    const path = '/api/openapi.json'
    expectRefusal(await keyed.raw(path), requiresKey)
    const headers = { authorization: `Bearer ${KEYS[0]}` }
    const { status, json, headers: answered } = await keyed.raw(path, { headers })
    expect(status).toBe(200)
    expect(answered['content-type']).toBe('application/json')
    expect(json).toMatchObject({ openapi: '3.1.1', paths: { '/api/trpc/batches.submit': {} } })
    const known = await keyed.raw(path, {
      headers: { ...headers, 'if-none-match': String(answered.etag) },
    })
    expect(known.status).toBe(304)
  })

  it.each(KEYS)('accepts the key %s', async (key) => {
    const answer = await submit(keyed, { authorization: `Bearer ${key}` })
    expect(answer.json).toMatchObject({ result: { data: { accepted: 1 } } })
    const big = await submit(keyed, { authorization: `bearer ${key}` }, large)
    expect(big.json).toMatchObject({ result: { data: { accepted: 1 } } })
  })

  it('gives a configured key the role before it', async () => {
    const headers = { authorization: `Bearer ${SCRAPER_KEY}` }
    expect((await keyed.raw('/metrics', { headers })).status).toBe(200)
    expectRefusal(await submit(keyed, headers), {
      ...{ status: 403, reason: 'forbidden_role', message: 'viewer' },
    })
    const admin = keyed.apiWith({ authorization: `Bearer ${KEYS[0]}` })
    expect((await admin.keys.list.query()).configured).toEqual([
      { name: 'configured key 1', role: 'admin' },
      { name: 'configured key 2', role: 'admin' },
      { name: 'configured key 3', role: 'viewer' },
    ])
  })

  it('signs a page in and out with a cookie that is not the key', async () => {
    const refused = await keyed.post('session.signIn', '{"key":"first-key"}')
    expectRefusal(refused, { status: 401, reason: 'unauthorized', message: 'not valid' })
    expect(refused.headers['set-cookie']).toBeUndefined()

    const answer = await keyed.post('session.signIn', JSON.stringify({ key: KEYS[0] }))
    const set = String(answer.headers['set-cookie'])
    expect(set).toMatch(/HttpOnly/)
    expect(set).toMatch(/SameSite=(Lax|Strict)/)
    expect(set).not.toContain(KEYS[0])
    const cookie = set.split(';')[0] as string
    expect(await keyed.apiWith({ cookie }).session.get.query()).toMatchObject({
      auth: 'key',
      signedIn: true,
    })
    expect((await submit(keyed, { cookie })).status).toBe(200)
    // From a page of another site, the browser sends the cookie and that site's Origin.
    expectRefusal(await submit(keyed, { cookie, origin: 'https://evil.example' }), {
      status: 403,
      reason: 'forbidden_origin',
      message: 'evil.example',
    })
    const out = await keyed.post('session.signOut', '', { cookie })
    expect(String(out.headers['set-cookie'])).toMatch(/Max-Age=0/)
  })

  it('accepts the allowed host names and forwarded requests with a key', async () => {
    const host = 'rewards.example.org:8443'
    const behind = { host, 'x-forwarded-for': '192.0.2.1', authorization: `Bearer ${KEYS[1]}` }
    expect((await submit(keyed, behind)).status).toBe(200)
    expectRefusal(await submit(keyed, { host }), requiresKey)
    const { status } = await submit(keyed, { host, authorization: `Bearer ${KEYS[1]}` })
    expect(status).toBe(200)
  })

  it('refuses other host names, such as one set by DNS rebinding, even with a key', async () => {
    const headers = { host: 'evil.example', authorization: `Bearer ${KEYS[0]}` }
    for (const path of ['/', '/login', '/api/trpc/session.get', '/metrics', '/v1/models']) {
      const { status, text } = await keyed.raw(path, { headers })
      expect(status, path).toBe(403)
      expect(text, path).toContain('forbidden_host')
    }
  })

  it('uses the scheme and host of a trusted proxy', async () => {
    const forwarded = {
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'rewards.example.org',
    }
    const { json, headers } = await keyed.raw('/api/trpc/session.get', { headers: forwarded })
    expect(json).toMatchObject({
      result: { data: { address: 'https://rewards.example.org/rewardops' } },
    })
    expect(headers['strict-transport-security']).toMatch(/^max-age=\d{8}/)
    const signedIn = await keyed.post('session.signIn', JSON.stringify({ key: KEYS[0] }), {
      ...forwarded,
      origin: 'https://rewards.example.org',
    })
    expect(String(signedIn.headers['set-cookie'])).toMatch(/; Secure/)
    const plain = await keyed.post('session.signIn', JSON.stringify({ key: KEYS[0] }))
    expect(String(plain.headers['set-cookie'])).not.toMatch(/Secure/)
    expect(plain.headers['strict-transport-security']).toBeUndefined()
    expect(String(plain.headers['set-cookie'])).toMatch(/; Path=\/rewardops;/)
  })

  it('answers below the prefix and, for probes and proxies that remove it, without it', async () => {
    const headers = { authorization: `Bearer ${KEYS[0]}` }
    const { origin, pathname } = new URL(keyed.url)
    expect(pathname).toBe('/rewardops')
    for (const path of ['/livez', '/readyz', '/metrics', '/v1/models', '/api/trpc/session.get']) {
      for (const base of [keyed.url, origin]) {
        expect((await fetch(base + path, { headers })).status, base + path).toBe(200)
      }
    }
    expect((await fetch(`${keyed.url}x/livez`, { headers })).status).not.toBe(200)
  })

  it('lets pages of another site link to it, but neither frame it nor load from it', async () => {
    const visit = {
      ...{ 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' },
      authorization: `Bearer ${KEYS[0]}`,
    }
    const linked = await keyed.raw('/metrics', {
      headers: { ...visit, 'sec-fetch-dest': 'document' },
    })
    expect(linked.status).toBe(200)
    for (const dest of ['iframe', 'frame', 'embed', 'object']) {
      const framed = await keyed.raw('/metrics', { headers: { ...visit, 'sec-fetch-dest': dest } })
      expectRefusal(framed, { status: 403, reason: 'forbidden_origin', message: 'another site' })
    }
  })

  it('slows down an address that sends wrong keys, and records it, but accepts its valid key', async () => {
    const count = FULL ? 10_000 : 200
    const answers: RawAnswer[] = []
    for (let sent = 0; sent < count; sent += 20) {
      const calls = Array.from({ length: 20 }, (_, i) => {
        const key = `wrong-key-${sent + i}`
        return i % 10 === 0
          ? keyed.post('session.signIn', JSON.stringify({ key }))
          : keyed.raw('/api/trpc/batches.list', { headers: { authorization: `Bearer ${key}` } })
      })
      answers.push(...(await Promise.all(calls)))
    }
    const delayed = answers.filter(({ status }) => status === 429)
    expect(answers.filter(({ status }) => status === 401).length).toBe(count - delayed.length)
    expect(delayed.length).toBeGreaterThan(count - 40)
    const refusal = { status: 429, reason: 'too_many_wrong_keys', message: '127.0.0.1' } as const
    for (const answer of delayed) {
      expectRefusal(answer, refusal)
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
    }
    const wrong = { authorization: 'Bearer wrong' }
    // The back-off may have just ended. A further wrong key then starts a back-off that is twice as long.
    const refused = (call: () => Promise<RawAnswer>) =>
      waitFor('a refusal', async () => {
        const answer = await call()
        expect([401, 429]).toContain(answer.status)
        return answer.status === 429 && answer
      })
    expectRefusal(await refused(() => submit(keyed, wrong, large)), refusal)
    for (const path of ['/metrics', '/v1/models', '/compat/openrlhf/r/k/wrong']) {
      const headers = path.includes('/k/') ? {} : wrong
      const { text } = await refused(() => keyed.raw(path, { headers }))
      expect(text, path).toContain('too_many_wrong_keys')
    }

    const headers = { authorization: `Bearer ${KEYS[0]}` }
    expect((await keyed.raw('/api/trpc/batches.list', { headers })).status).toBe(200)
    await waitFor('the wrong keys in /metrics', async () => {
      const metrics = parsePrometheusText((await keyed.raw('/metrics', { headers })).text)
      const counted = (reason: string) =>
        seriesValue(metrics, 'rewardops_wrong_keys_total', { reason })
      return counted('unauthorized') + counted('too_many_wrong_keys') >= count
    })
    const { items } = await keyed.apiWith(headers).audit.list.query({ action: 'keys.refused' })
    expect(items).toMatchObject([
      { actor: 'unknown', target: '127.0.0.1', changes: [{ field: 'wrongKeys', to: '10' }] },
    ])
  })

  it('reports its health without a key', async () => {
    const { status, json } = await keyed.raw('/healthz')
    expect(status).toBe(200)
    expect(json).toMatchObject({ status: 'ok', pids: { workers: [] } })
  })
})

describe('without keys', () => {
  it.each(['evil.example', 'evil.example:3000', '127.0.0.1.evil.example', '10.0.0.1', '[::2]:80'])(
    'refuses the host %s',
    (host) =>
      nothingStored(open, async () => {
        const forbidden = { status: 403, reason: 'forbidden_host', message: host } as const
        expectRefusal(await submit(open, { host }), forbidden)
        expectRefusal(await submit(open, { host }, large), forbidden)
        expectRefusal(await open.raw('/api/trpc/batches.list', { headers: { host } }), forbidden)
      }),
  )

  it.each(['https://evil.example', 'null', 'http://127.0.0.1:1', 'file://', 'http://localhost'])(
    'refuses the origin %s',
    (origin) =>
      nothingStored(open, async () => {
        const refusal = { status: 403, reason: 'forbidden_origin', message: origin } as const
        expectRefusal(await submit(open, { origin }), refusal)
        expectRefusal(await submit(open, { origin }, large), refusal)
      }),
  )

  const forwarded = [
    ['forwarded', 'for=192.0.2.1'],
    ['x-forwarded-for', '192.0.2.1'],
    ['X-Forwarded-Proto', 'https'],
    ['x-forwarded-anything', ''],
    ['x-real-ip', '127.0.0.1'],
    ['via', '1.1 squid'],
  ] as const
  it.each(forwarded)('refuses requests that a proxy forwarded with %s', (name, value) =>
    nothingStored(open, async () => {
      const refusal = {
        status: 403,
        reason: 'forbidden_proxy',
        message: name.toLowerCase(),
        hint: /REWARDOPS_API_KEYS/,
      } as const
      const headers = { [name]: value }
      expectRefusal(await submit(open, headers), refusal)
      expectRefusal(await submit(open, headers, large), refusal)
      for (const path of [
        '/',
        '/metrics',
        '/api/openapi.json',
        '/v1/models',
        '/api/export/samples',
      ]) {
        const { status, text } = await open.raw(path, { headers })
        expect(status, path).toBe(403)
        expect(text, path).toContain('forbidden_proxy')
      }
      const health = await open.raw('/healthz', { headers })
      expect(health.json).toEqual({ status: 'ok' })
    }),
  )

  const isRoot = process.platform === 'linux' && process.getuid?.() === 0
  it.runIf(isRoot)('refuses processes of other users, and accepts those of its own user', () =>
    nothingStored(open, async () => {
      const listed = (uid: number) => callAs(uid, `${open.url}/api/trpc/batches.list`)
      expect(await listed(65_534)).toMatch(/^403 .*user id 65534.*forbidden_user/)
      expect(await listed(0)).toMatch(/^200 /)
    }),
  )

  it.each([
    ['cross-site', 'no-cors', 'image'],
    ['cross-site', 'navigate', 'iframe'],
    ['cross-site', 'navigate', 'document'],
    ['same-site', 'no-cors', 'script'],
    ['same-site', 'navigate', 'iframe'],
  ])('refuses a %s request with the mode %s for %s', async (site, mode, dest) => {
    const headers = { 'sec-fetch-site': site, 'sec-fetch-mode': mode, 'sec-fetch-dest': dest }
    for (const path of ['/', '/api/trpc/batches.list', '/api/export/samples', '/v1/models']) {
      const { status, text } = await open.raw(path, { headers })
      expect(status, path).toBe(403)
      expect(text, path).toContain('another site')
    }
  })

  it.each([
    ['none', 'navigate'],
    ['same-origin', 'cors'],
    ['same-site', 'navigate'],
  ])('accepts a %s request with the mode %s', async (site, mode) => {
    const headers = {
      ...{ 'sec-fetch-site': site, 'sec-fetch-mode': mode },
      'sec-fetch-dest': mode === 'navigate' ? 'document' : 'empty',
    }
    expect((await open.raw('/api/trpc/batches.list', { headers })).status).toBe(200)
  })

  it.each([
    ['TRACE / HTTP/1.1\r\nHost: localhost', 405, 'method_not_allowed'],
    ['TRACE /api/trpc/batches.list HTTP/1.1\r\nHost: localhost', 405, 'method_not_allowed'],
    ['GET * HTTP/1.1\r\nHost: localhost', 400, 'malformed_request'],
    ['OPTIONS * HTTP/1.1\r\nHost: localhost', 400, 'malformed_request'],
    ['GET http://evil.example/ HTTP/1.1\r\nHost: localhost', 400, 'malformed_request'],
    ['GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example', 400, 'malformed_request'],
    ['GET /livez HTTP/1.1\r\nHost: localhost\r\nhost: localhost', 400, 'malformed_request'],
  ])('answers %j with %i', async (head, status, reason) => {
    const answer = await exchange(open, head)
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(answer).toContain(`"reason":"${reason}"`)
  })

  it('forbids browsers to store the live stream', async () => {
    const stream = await fetch(`${open.url}/api/trpc/live.events`)
    expect(stream.headers.get('cache-control')).toBe('no-store, no-transform')
    await stream.body?.cancel()
  })

  it('sends the same security headers with every answer but pages', async () => {
    const paths = [
      ...['/livez', '/metrics', '/v1/models', '/classify', '/compat/none', '/nope'],
      ...['/api/trpc/batches.list', '/api/trpc/nope', '/api/openapi.json', '/api/nope'],
      ...['/api/export/samples', '/api/images/0'],
    ]
    for (const path of paths) {
      const { headers } = await open.raw(path)
      expect(headers, path).toMatchObject({
        'content-security-policy': expect.stringMatching(
          /^default-src 'none'.*frame-ancestors 'none'$/,
        ),
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'same-origin',
        'cross-origin-opener-policy': 'same-origin',
        'cross-origin-resource-policy': 'same-origin',
        'cache-control': path === '/api/openapi.json' ? 'private, no-cache' : 'no-store',
      })
      expect(headers['strict-transport-security'], path).toBeUndefined()
    }
  })

  it('accepts this machine’s own names and its own pages', async () => {
    const { port } = new URL(open.url)
    for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`, 'LOCALHOST']) {
      expect((await submit(open, { host })).status, host).toBe(200)
      expect((await submit(open, { host, origin: `http://${host}` })).status, host).toBe(200)
    }
    const answer = await open.api.batches.submit.mutate(submission)
    expect(answer.accepted).toBe(1)
  })

  it('passes a valid request id through', async () => {
    const given = await open.raw('/api/trpc/batches.list', {
      headers: { 'x-request-id': 'run-7.3' },
    })
    expect(given.headers['x-request-id']).toBe('run-7.3')
    const odd = await open.raw('/api/trpc/nope', { headers: { 'x-request-id': 'a b<script>' } })
    expectRefusal(odd, { status: 404, reason: 'not_found', message: 'nope' })
    expect(odd.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/)
  })
})

describe('settings with which a start is refused', () => {
  const refused: [what: string, settings: Record<string, string>, message: RegExp][] = [
    ['a network address without keys', { HOST: '0.0.0.0' }, /HOST=0\.0\.0\.0.*REWARDOPS_API_KEYS/],
    [
      'a setting that does not exist',
      { REWARDOPS_WORKER: '4' },
      /REWARDOPS_WORKER is not a setting.*REWARDOPS_WORKERS/s,
    ],
    ...inFullRun<[string, Record<string, string>, RegExp]>([
      'a database URL of MySQL',
      { DATABASE_URL: 'mysql://x' },
      /DATABASE_URL/,
    ]),
  ]
  it.each(refused)('%s', async (_, settings, message) => {
    const { code, stderr } = await runToEnd(settings)
    expect(stderr).toMatch(message)
    expect(stderr).not.toMatch(/\n\s+at /)
    expect(code).toBe(1)
  })

  it('a port in use, before the database starts', async () => {
    const { port } = new URL(open.url)
    const { code, stderr, files } = await runToEnd({ PORT: port })
    expect(stderr).toMatch(new RegExp(`${port}.*in use.*PORT`))
    expect(code).toBe(1)
    expect(files).not.toContain('postgres')
  })
})

async function exchange(service: Service, head: string): Promise<string> {
  const { hostname, port } = new URL(service.url)
  const socket = connect(Number(port), hostname)
  socket.end(`${head}\r\nConnection: close\r\n\r\n`)
  return text(socket)
}

async function callAs(uid: number, url: string): Promise<string> {
  const script = 'fetch(process.argv[1]).then(async (r) => console.log(r.status, await r.text()))'
  const child = spawn(process.execPath, ['-e', script, url], {
    uid,
    cwd: '/',
    env: environment({}),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return text(child.stdout)
}
