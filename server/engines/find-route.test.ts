import { afterEach, describe, expect, test } from 'vitest'
import { probeServer } from './probe.ts'
import { type FakeHandler, FakeServer, hangs } from './testing/fake-server.ts'
import { recorded } from './testing/recorded-vllm.ts'
import { models, routes } from './testing/routes.ts'

const servers: FakeServer[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function probe(
  handler: FakeHandler,
  over: Partial<Parameters<typeof probeServer>[0]> = {},
): Promise<{ found: Awaited<ReturnType<typeof probeServer>>; posts: string[] }> {
  const server = await FakeServer.start(handler)
  servers.push(server)
  const found = await probeServer({
    url: server.url,
    engine: 'vllm',
    apiKey: null,
    timeoutMs: 5_000,
    kind: 'discriminative',
    ...over,
  })
  return { found, posts: server.calls.filter((c) => c.method === 'POST').map((c) => c.path) }
}

describe('the first route that returns a score is used, for any set of routes', () => {
  test.each([
    ['a reward model of 0.11.0', 'rm11', 'classify', false],
    ['a reward model of 0.32.0', 'rm32', 'classify', false],
    ['a process reward model of 0.11.0', 'prm11', 'token', false],
    ['a process reward model of 0.32.0', 'prm32', 'token', false],
    ['a cross-encoder of 0.11.0', 'cross11', 'pair', false],
    ['a cross-encoder of 0.32.0', 'cross32', 'pair', false],
    ['a model without a chat template', 'plain32', 'classify', true],
  ] as const)('%s', async (_what, name, route, plainText) => {
    const { found, posts } = await probe(recorded[name])
    expect(found).toMatchObject({ ok: true, kind: 'discriminative', route, plainText })
    expect(posts.length).toBeGreaterThan(0)
  })

  test('a warning describes how cross-encoders and plain text are scored', async () => {
    expect((await probe(recorded.cross32)).found).toMatchObject({
      warnings: [expect.stringMatching(/no chat template.*\/score.*"chatTemplate"/)],
    })
    expect((await probe(recorded.plain32)).found).toMatchObject({
      warnings: [expect.stringMatching(/no chat template.*newline.*"chatTemplate"/)],
    })
  })

  test('vLLM 0.14.0 scores the tokens of every classifier, so a warning names the token route', async () => {
    const { found } = await probe(recorded.prm14)
    expect(found).toMatchObject({
      route: 'classify',
      warnings: [expect.stringMatching(/process reward model.*"route": "token"/)],
    })
    const named = await probe(recorded.prm14, { route: 'token' })
    expect(named.found).toMatchObject({ ok: true, route: 'token', warnings: [] })
    expect(new Set(named.posts)).toEqual(new Set(['/pooling']))
  })

  test('a registered chat template is scored as text, so the server needs none', async () => {
    const { found, posts } = await probe(recorded.cross32, { templated: true })
    expect(found).toMatchObject({ ok: true, route: 'classify', plainText: false, warnings: [] })
    expect(posts).toEqual(['/classify'])
  })
})

describe('a server that cannot score', () => {
  test('an embedding model is refused, although its /score returns numbers', async () => {
    const { found, posts } = await probe(recorded.embedding32)
    expect(found).toMatchObject({
      ok: false,
      cause: 'other_kind',
      message: expect.stringContaining('embeddings'),
    })
    expect(posts).not.toContain('/score')
  })

  test('a model that generates is a judge', async () => {
    const { found } = await probe(recorded.judge14, { kind: null })
    expect(found).toMatchObject({ ok: true, kind: 'generative', route: null })
    expect((await probe(recorded.judge14)).found).toMatchObject({
      ok: false,
      hint: expect.stringContaining('"kind": "generative"'),
    })
  })

  test('a server whose named route returns no score is refused with its answer', async () => {
    const { found } = await probe(recorded.rm11, { route: 'token' })
    expect(found).toMatchObject({
      ok: false,
      message: expect.stringMatching(/^route: .*\/pooling answered 400: .*Pooling API/),
    })
  })

  test.each([
    ['an engine that died', recorded.dead14],
    ['silence', routes({ 'GET /v1/models': models('vllm', 'rm'), 'POST /classify': hangs })],
  ])('is left to the self-test if the reason is %s', async (_what, handler) => {
    const { found } = await probe(handler, { timeoutMs: 1_000 })
    expect(found).toMatchObject({ ok: true, kind: 'discriminative', route: 'classify' })
  })
})

test('a failing server keeps its known route', async () => {
  const known = { route: 'token', plainText: false, inUse: false } as const
  expect(await probe(recorded.dead14, { known })).toMatchObject({
    found: { ok: true, route: 'token' },
    posts: ['/classify'],
  })
  expect(await probe(recorded.rm32, { known })).toMatchObject({ found: { route: 'classify' } })
})

test('servers in use and sleeping servers receive no scoring requests', async () => {
  const known = { route: 'pair', plainText: false, inUse: true } as const
  expect(await probe(recorded.rm32, { known })).toMatchObject({
    found: { ok: true, route: 'pair' },
    posts: [],
  })
  const asleep: FakeHandler = (call, response) => {
    if (call.method === 'POST') return
    const body = { is_sleeping: true, data: [{ id: 'rm', owned_by: 'vllm' }] }
    response.end(JSON.stringify(body))
  }
  expect(await probe(asleep)).toMatchObject({ found: { ok: true, sleeping: true }, posts: [] })
})

test('a model that is not served is refused without a request to its routes', async () => {
  expect(await probe(recorded.nope32, { model: 'nope' })).toMatchObject({
    found: {
      ok: false,
      reason: 'model_not_served',
      message: expect.stringMatching(/"nope".*"rm"/),
    },
    posts: [],
  })
})
