import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../testkit/processes/simulated-rm.ts'
import { inFullRun } from '../../testkit/service/full-run.ts'
import { expectRefusal, nothingStored, type Refusal } from '../../testkit/service/refusals.ts'
import { type Sample, type Submit, sample } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { SubmitResult } from '../contract/trainer.ts'
import { FakeServer } from '../engines/testing/fake-server.ts'

let service: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[service, rm] = await Promise.all([
    Service.start({ env: { REWARDOPS_WORKERS: '1' } }),
    startSimulatedServers(),
  ])
  await service.api.servers.register.mutate({ name: 'rm', url: rm.url })
})

afterAll(async () => {
  const problems = service?.log.problems()
  await Promise.all([service?.stop().finally(() => service.destroy()), rm?.stop()])
  expect(problems).toEqual([])
})

async function refused(path: string, body: unknown, refusal: Refusal): Promise<void> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const data = await nothingStored(service, async () =>
    expectRefusal(await service.post(path, text), refusal),
  )
  expect(data.path).toBe(path)
}

const submit = (fields: Partial<Submit> = {}, ...samples: Partial<Sample>[]): Submit => ({
  run: 'bad-input',
  step: 1,
  samples: samples.length > 0 ? samples.map(sample) : [sample()],
  ...fields,
})

const invalid = (message: string | RegExp): Refusal => ({
  status: 400,
  reason: 'invalid_input',
  message,
})

describe('batches.submit', () => {
  const valid = submit()
  const cases: [what: string, body: unknown, refusal: Refusal][] = [
    [
      'malformed JSON',
      '{"run":"r","step":1,"samples":[{]}',
      { status: 400, reason: 'malformed_json', message: 'position' },
    ],
    ['no body', '', invalid('run: is missing')],
    ['a list as the body', [], invalid(/object/)],
    ['a missing run', { ...valid, run: undefined }, invalid('run: is missing')],
    ['a missing step', { ...valid, step: undefined }, invalid('step: is missing')],
    ['no samples at all', { ...valid, samples: undefined }, invalid('samples: is missing')],
    ['samples that are not a list', { ...valid, samples: {} }, invalid(/^samples: .*array/)],
    ['a step that is not an integer', { ...valid, step: 1.5 }, invalid(/^step: /)],
    ['a negative step', { ...valid, step: -1 }, invalid(/^step: /)],
    ['an unknown split', { ...valid, split: 'test' }, invalid(/^split: .*"train".*"val"/)],
    ['an unknown field', { ...valid, grouped: 8 }, invalid('unknown field "grouped"')],
    ['a run with NUL in its name', { ...valid, run: 'a\u0000b' }, invalid(/^run: .*NUL/)],
    [
      'a run named with a lone surrogate',
      { ...valid, run: 'a\ud800' },
      invalid(/^run: .*surrogate/),
    ],
    ['an empty run', { ...valid, run: '' }, invalid(/^run: .*empty/)],
    [
      'an unknown field of the reward',
      { ...valid, reward: { manger: 'naive' } },
      invalid('reward: unknown field "manger"'),
    ],
    [
      'an empty batch',
      { ...valid, samples: [] },
      { status: 400, reason: 'empty_batch', message: 'samples', hint: /"open": true/ },
    ],
    [
      'a duplicate index',
      submit({}, { index: 0 }, { index: 1 }, { index: 1 }),
      {
        status: 400,
        reason: 'duplicate_index',
        message: 'samples[2].index is 1, and so is samples[1].index',
      },
    ],
    [
      'an index out of order',
      submit({}, { index: 0 }, { index: 2 }),
      invalid('samples[1].index is 2'),
    ],
    [
      'a group larger than groupSize',
      submit({ groupSize: 2 }, { uid: 'a' }, { uid: 'b' }, { uid: 'a' }, { uid: 'a' }),
      {
        status: 400,
        reason: 'group_too_large',
        message: 'uid "a" has 3 samples and groupSize is 2',
      },
    ],
    [
      'an unknown manager',
      { ...valid, reward: { manager: 'naiv' } },
      {
        status: 400,
        reason: 'unknown_manager',
        message: /"naiv".*Did you mean "naive".*Known: .*naive/,
      },
    ],
    [
      'a data source without a rule',
      submit({}, {}, { dataSource: 'openai/gsm8' }),
      {
        status: 400,
        reason: 'unknown_data_source',
        message: /"openai\/gsm8"\. Did you mean "openai\/gsm8k".*Known: .*openai\/gsm8k/,
      },
    ],
    [
      'an unknown model',
      { ...valid, reward: { model: 'simulated-rn' } },
      {
        status: 400,
        reason: 'unknown_model',
        message: /"simulated-rn".*Did you mean "simulated-rm".*Known: simulated-rm/,
      },
    ],
    [
      'unknown kwargs',
      { ...valid, reward: { kwargs: { methd: 'flexible' } } },
      { status: 400, reason: 'invalid_kwargs', message: 'methd' },
    ],
    [
      'kwargs for a reward model',
      { ...valid, reward: { model: 'simulated-rm', kwargs: { a: 1 } } },
      { status: 400, reason: 'invalid_kwargs', message: 'reward.kwargs.a' },
    ],
    ...['../escape.py', '/etc/passwd', 'a/../../b.py', 'a\u0000.py', ''].map(
      (path): [string, unknown, Refusal] => [
        `a function at ${JSON.stringify(path)}`,
        { ...valid, reward: { function: { path, name: 'compute_score' } } },
        { status: 400, reason: 'function_outside_folder', message: 'reward.function.path' },
      ],
    ),
    [
      'a function in Python',
      { ...valid, reward: { function: { path: 'mine.py', name: 'compute_score' } } },
      { status: 422, reason: 'invalid_function', message: 'mine.py', hint: /serve-reward/ },
    ],
    [
      'a missing function file',
      { ...valid, reward: { function: { path: 'mine.ts' } } },
      { status: 422, reason: 'invalid_function', message: /functions folder/ },
    ],
    [
      'a manager class outside the functions folder',
      { ...valid, reward: { manager: { path: '../mine.ts' } } },
      { status: 400, reason: 'function_outside_folder', message: 'reward.manager.path' },
    ],
    ...([['reward.sleepAfter', { sleepAfter: true }]] as const).map(
      ([field, reward]): [string, unknown, Refusal] => [
        `${field} for a rule`,
        { ...valid, reward },
        { status: 422, reason: 'unsupported_setting', message: field },
      ],
    ),
    [
      'an integer past 2^53 in groundTruth',
      JSON.stringify(valid).replace('"groundTruth":"72"', '"groundTruth":9007199254740993'),
      {
        status: 400,
        reason: 'integer_out_of_range',
        message: /9007199254740993.*groundTruth/,
        hint: /string/,
      },
    ],
    [
      'an integer below −2^53 deep in extraInfo',
      JSON.stringify(submit({}, { extraInfo: { a: [{ seed: 0 }] } })).replace(
        '"seed":0',
        '"seed":-12345678901234567890',
      ),
      { status: 400, reason: 'integer_out_of_range', message: /-12345678901234567890.*seed/ },
    ],
  ]
  it.each(cases)('refuses %s', (_, body, refusal) => refused('batches.submit', body, refusal))

  const missing: [field: keyof Sample, message: string][] = [
    ['uid', 'samples[1].uid: is missing'],
    ['dataSource', 'samples[1].dataSource: is missing'],
    ['prompt', 'samples[1].prompt: is missing'],
    ['response', 'samples[1].response: is missing'],
  ]
  it.each(missing)('reports a missing %s with its path', (field, message) =>
    refused('batches.submit', submit({}, {}, { [field]: undefined }), invalid(message)),
  )

  const wrong: [what: string, fields: Record<string, unknown>, message: RegExp][] = [
    ['a number as the response', { response: 5 }, /^samples\[0\]\.response: /],
    ['a prompt that is neither text nor messages', { prompt: 5 }, /^samples\[0\]\.prompt: /],
    ['messages without a role', { prompt: [{ content: 'x' }] }, /^samples\[0\]\.prompt.*role/],
    ['an empty uid', { uid: '' }, /^samples\[0\]\.uid: must not be empty/],
    ['a uid of 600 characters', { uid: 'u'.repeat(600) }, /^samples\[0\]\.uid: .*512/],
    ['a negative responseLength', { responseLength: -1 }, /^samples\[0\]\.responseLength: /],
    ['a score that is text', { score: '1' }, /^samples\[0\]\.score: /],
    ['extraInfo that is a list', { extraInfo: [] }, /^samples\[0\]\.extraInfo: /],
    ['an unknown field', { ground_truth: '72' }, /^samples\[0\]: unknown field "ground_truth"/],
  ]
  it.each(wrong)('refuses %s in a sample', (_, fields, message) =>
    refused('batches.submit', submit({}, fields as Partial<Sample>), invalid(message)),
  )
})

describe('existing batches', () => {
  let open: SubmitResult
  let other: SubmitResult

  beforeAll(async () => {
    const samples = [sample(), sample({ uid: 'q-2' })]
    open = await service.api.batches.submit.mutate({ ...submit(), open: true, samples })
    other = await service.api.batches.submit.mutate(submit({ idempotencyKey: 'key-1' }))
    await service.api.batches.wait.query({ batchId: other.batchId, waitMs: 30_000 })
  })

  it('refuses a gap in startIndex and names the next index', () =>
    refused(
      'batches.append',
      { batchId: open.batchId, startIndex: 3, samples: [sample()] },
      { status: 409, reason: 'append_gap', message: /startIndex is 3.*next index is 2/ },
    ))

  it('refuses other content at stored indexes', () =>
    refused(
      'batches.append',
      { batchId: open.batchId, startIndex: 1, samples: [sample({ response: 'other' })] },
      { status: 409, reason: 'append_conflict', message: 'sample 1 is stored with other content' },
    ))

  it('recognizes a repeated append by every field of its samples', async () => {
    const { batchId } = await service.api.batches.submit.mutate({
      ...submit(),
      ...{ open: true, samples: [] },
    })
    const scored = { score: 0.1, rewardExtraInfo: { a: 1 }, verdict: 'equal', extracted: '72' }
    const given = [{ extraInfo: { turn: 1 }, responseLength: 7 }, scored] as const
    const appendOf = (change: object, at: number) => ({
      ...{ batchId, startIndex: 0 },
      samples: given.map((fields, i) => sample({ ...fields, ...(i === at ? change : {}) })),
    })
    await service.api.batches.append.mutate(appendOf({}, 0))
    // A score that the service computed is not part of the content that a repeated append must match.
    await waitFor('both scores', async () => {
      return (await service.api.batches.get.query({ batchId })).scored === 2
    })
    const again = await service.api.batches.append.mutate(appendOf({}, 0))
    expect(again).toMatchObject({ accepted: 0, samples: 2 })
    const changes = [
      { groundTruth: '73' },
      { extraInfo: { turn: 2 } },
      { extraInfo: null },
      { responseLength: 8 },
      { dataSource: 'math' },
      { score: 1 },
    ]
    const ofScored = [
      { score: 0.2 },
      { rewardExtraInfo: { a: 2 } },
      { verdict: 'different' },
      { extracted: null },
    ]
    for (const change of changes) {
      await refused('batches.append', appendOf(change, 0), {
        ...{ status: 409, reason: 'append_conflict', message: 'sample 0 is stored' },
      })
    }
    for (const change of ofScored) {
      await refused('batches.append', appendOf(change, 1), {
        ...{ status: 409, reason: 'append_conflict', message: 'sample 1 is stored' },
      })
    }
  })

  it('refuses an append that overlaps the end', () =>
    refused(
      'batches.append',
      { batchId: open.batchId, startIndex: 1, samples: [sample({ uid: 'q-2' }), sample()] },
      { status: 409, reason: 'append_conflict', message: 'next index is 2' },
    ))

  it('refuses an append of a data source without a rule', () =>
    refused(
      'batches.append',
      { batchId: open.batchId, startIndex: 2, samples: [sample({ dataSource: 'mine' })] },
      { status: 400, reason: 'unknown_data_source', message: '"mine"' },
    ))

  it('refuses an append after the close', () =>
    refused(
      'batches.append',
      { batchId: other.batchId, startIndex: 1, samples: [sample()] },
      { status: 409, reason: 'batch_closed', message: other.batchId },
    ))

  it('refuses a single score for a closed batch', () =>
    refused(
      'samples.score',
      { run: 'bad-input', step: 1, sample: sample(), batchId: other.batchId },
      { status: 409, reason: 'batch_closed', message: other.batchId },
    ))

  it('refuses an idempotency key used for other content', () =>
    refused('batches.submit', submit({ idempotencyKey: 'key-1', step: 2 }), {
      status: 409,
      reason: 'idempotency_conflict',
      message: new RegExp(`"key-1" belongs to batch ${other.batchId}`),
    }))

  it('refuses an idempotency key of samples.score used for other content', async () => {
    const call = { run: 'bad-input', step: 1, sample: sample(), idempotencyKey: 'key-1' }
    await service.api.samples.score.mutate(call)
    await refused(
      'samples.score',
      { ...call, sample: sample({ response: 'other' }) },
      { status: 409, reason: 'idempotency_conflict', message: '"key-1"' },
    )
  })

  it('refuses an idempotency key of samples.score used for another batch', async () => {
    const batchIds = await Promise.all(
      [1, 2].map(async () => {
        const batch = { ...submit(), open: true, samples: [] }
        return (await service.api.batches.submit.mutate(batch)).batchId
      }),
    )
    const [batchId, another] = batchIds
    const call = { run: 'bad-input', step: 1, sample: sample(), idempotencyKey: 'key-2' }
    const first = await service.api.samples.score.mutate({ ...call, batchId })
    expect(await service.api.samples.score.mutate({ ...call, batchId })).toEqual(first)
    for (const other of [{ ...call, batchId: another }, call]) {
      await refused('samples.score', other, {
        ...{ status: 409, reason: 'idempotency_conflict', message: '"key-2"' },
      })
    }
  })

  const mistaken = ['b', 'c1', '1', 'b1-0', 'b1;drop', 'B1', 'b-1', `b${'9'.repeat(30)}`]
  const absent = ['b0', 'b2147483647', 'b99999999999', 'b999999999999999999']
  const takers: [path: string, method: 'query' | 'mutate', input: (id: string) => unknown][] = [
    ['batches.next', 'query', (batchId) => ({ batchId, after: null, samples: 1, waitMs: 0 })],
    ['batches.wait', 'query', (batchId) => ({ batchId, waitMs: 0 })],
    ['batches.get', 'query', (batchId) => ({ batchId })],
    ['batches.results', 'query', (batchId) => ({ batchId })],
    ['batches.append', 'mutate', (batchId) => ({ batchId, startIndex: 0, samples: [sample()] })],
    ['batches.close', 'mutate', (batchId) => ({ batchId })],
    ['batches.cancel', 'mutate', (batchId) => ({ batchId })],
    ['samples.score', 'mutate', (batchId) => ({ run: 'r', step: 1, sample: sample(), batchId })],
  ]
  it.each(takers)(
    '%s distinguishes an invalid batchId from an unknown one',
    async (path, kind, input) => {
      const ask = (id: string) =>
        kind === 'query'
          ? service.raw(`/api/trpc/${path}?input=${encodeURIComponent(JSON.stringify(input(id)))}`)
          : service.post(path, JSON.stringify(input(id)))
      await nothingStored(service, async () => {
        for (const id of mistaken) expectRefusal(await ask(id), invalid(/^batchId: .*"b12"/))
        for (const id of absent) {
          const refusal = { status: 404, reason: 'batch_not_found', message: id } as const
          expectRefusal(await ask(id), refusal)
        }
      })
    },
  )

  it('reports unknown samples and invalid sample ids', async () => {
    const ask = (id: string) => service.raw(`/api/trpc/samples.get?input={"id":"${id}"}`)
    for (const id of [`${open.batchId}-9`, 'b99999999-0', `${open.batchId}-999999999`]) {
      const refusal = { status: 404, reason: 'sample_not_found', message: id } as const
      expectRefusal(await ask(id), refusal)
    }
    for (const id of ['x', open.batchId, `${open.batchId}-`, '12-3']) {
      expectRefusal(await ask(id), invalid(/^id: .*"b12-3"/))
    }
  })

  it('refuses cursors of another batch and invalid cursors', async () => {
    const next = (after: unknown) =>
      service.post('batches.next', JSON.stringify({ batchId: open.batchId, after }))
    const mismatch = (message: string | RegExp) =>
      ({ status: 400, reason: 'cursor_mismatch', message }) as const
    const { cursor } = await service.api.batches.next.query({ batchId: other.batchId })
    expectRefusal(await next(cursor), mismatch(`belongs to batch ${other.batchId}`))
    expectRefusal(await next('nonsense'), mismatch('"nonsense"'))
    expectRefusal(await next(''), mismatch('""'))
    expectRefusal(await next(`${open.batchId}.99`), mismatch('99'))
    expectRefusal(await next(`${open.batchId}.9999999999`), mismatch('9999999999'))
    expectRefusal(await next(7), invalid(/^after: /))
  })

  it('limits the requested amounts', async () => {
    const ask = (path: string, input: unknown) => service.post(path, JSON.stringify(input))
    const { batchId } = open
    expectRefusal(
      await ask('batches.results', { batchId, limit: 50_001 }),
      invalid(/^limit: .*50000/),
    )
    expectRefusal(await ask('batches.results', { batchId, offset: -1 }), invalid(/^offset: /))
    expectRefusal(await ask('batches.next', { batchId, samples: 0 }), invalid(/^samples: /))
    expectRefusal(await ask('batches.next', { batchId, waitMs: -1 }), invalid(/^waitMs: /))
    for (const offset of [2, 2_147_483_647, 9_007_199_254_740_991]) {
      const page = await service.api.batches.results.query({ batchId, offset })
      expect(page.index).toEqual([])
    }
  })

  it('does not close a cancelled batch', async () => {
    const { batchId } = await service.api.batches.submit.mutate(submit({ open: true }))
    await service.api.batches.cancel.mutate({ batchId })
    await refused(
      'batches.close',
      { batchId },
      { status: 409, reason: 'batch_closed', message: `${batchId} is cancelled` },
    )
  })
})

describe('requests that reach no procedure', () => {
  const ask = (path: string, method: 'GET' | 'POST', headers = {}) =>
    service.raw(path, { method, headers, ...(method === 'POST' ? { body: '{}' } : {}) })
  const json = { 'content-type': 'application/json' }

  it('reports unknown procedures and paths', async () => {
    const gone = { status: 404, reason: 'not_found' } as const
    expectRefusal(await ask('/api/trpc/batches.submitt', 'POST', json), {
      ...gone,
      message: 'batches.submitt',
    })
    expectRefusal(await ask('/api/trpc/batches.gett', 'GET'), { ...gone, message: 'batches.gett' })
    expectRefusal(await ask('/api/nothing', 'GET'), { ...gone, message: '/api/nothing' })
  })

  it('reports a wrong method', () =>
    nothingStored(service, async () => {
      const wrong = { status: 405, reason: 'method_not_allowed', message: /./ } as const
      expectRefusal(await ask('/api/trpc/batches.submit', 'GET'), wrong)
      expectRefusal(await ask('/api/trpc/batches.close?input={"batchId":"b1"}', 'GET'), wrong)
    }))

  it('reports a wrong content type and a wrong encoding', () =>
    nothingStored(service, async () => {
      const wrong = { status: 415, reason: 'unsupported_encoding' } as const
      const path = '/api/trpc/batches.submit'
      expectRefusal(await ask(path, 'POST', { 'content-type': 'text/plain' }), {
        ...wrong,
        message: '"text/plain"',
      })
      expectRefusal(await ask(path, 'POST'), { ...wrong, message: 'application/json' })
      expectRefusal(await ask(path, 'POST', { ...json, 'content-encoding': 'br' }), {
        ...wrong,
        message: '"br"',
      })
    }))

  it('refuses JSON that is nested too deep, in every kind of body', async () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    const deep = { status: 400, reason: 'invalid_input', message: /nested more than 200/ } as const
    const body = (depth: number, response = 'r') =>
      JSON.stringify(submit({}, { response, extraInfo: { a: 0 } })).replace(
        '"a":0',
        `"a":${nested(depth)}`,
      )
    const long = 'r'.repeat(2 << 20)
    for (const depth of [250, 100_000]) {
      expectRefusal(await service.post('batches.submit', body(depth)), deep)
      expectRefusal(await service.post('batches.submit', body(depth, long)), deep)
    }
    expectRefusal(await service.post('samples.score', `{"uid":${nested(250)}}`), deep)
    for (const response of ['r', long]) {
      expect((await service.post('batches.submit', body(150, response))).status).toBe(200)
    }
    const query = await service.raw(`/api/trpc/samples.list?input=${nested(2_000)}`)
    expectRefusal(query, deep)
  })

  it.each([
    ['batches.list', { run: 'a\u0000' }],
    ['samples.facets', { run: 'a\u0000' }],
    ['samples.list', { cursor: '\u0000' }],
    ['runs.get', { name: '\ud800' }],
    ['runs.config', { run: 'a\u0000' }],
    ['servers.get', { name: 'a\u0000' }],
    ['runs.changes', { name: 'a\u0000' }],
    ['runs.table', { search: '\u0000' }],
    ['samples.facets', { step: 2 ** 31 }],
    ['samples.list', { lengthMin: 2 ** 31 }],
  ])('refuses input that Postgres cannot hold, of %s', async (procedure, input) => {
    const text = encodeURIComponent(JSON.stringify(input))
    const answer = await service.raw(`/api/trpc/${procedure}?input=${text}`)
    expect(answer.status, answer.text.slice(0, 300)).toBe(400)
    expect(answer.text).toContain('"reason":"invalid_input"')
  })

  it('reports input in the URL that is not JSON', async () => {
    expectRefusal(await service.raw('/api/trpc/batches.get?input={nope'), {
      status: 400,
      reason: 'malformed_json',
      message: 'JSON',
    })
  })
})

describe('servers.register', () => {
  let redirecting: FakeServer
  let page: FakeServer

  beforeAll(async () => {
    redirecting = await FakeServer.start((_, res) => {
      res.writeHead(302, { location: rm.url }).end()
    })
    page = await FakeServer.start((_, res) => {
      res.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Hi</title>')
    })
  })
  afterAll(() => Promise.all([redirecting.close(), page.close()]))

  const register = (fields: Record<string, unknown>, refusal: Refusal) =>
    refused('servers.register', { name: 'new', ...fields }, refusal)

  const urls: [url: string, message: RegExp][] = [
    ['file:///etc/passwd', /file:/],
    ['ftp://127.0.0.1/', /ftp:/],
    ['http://169.254.169.254/latest/meta-data', /169\.254\.169\.254/],
    ['http://0251.0376.0251.0376/', /169\.254\.169\.254/],
    ['http://2852039166/', /169\.254\.169\.254/],
    ['http://[fe80::1]:8000', /fe80::1/],
    ['http://[::ffff:169.254.169.254]/', /link-local/],
    ['http://metadata.google.internal/', /metadata\.google\.internal/],
    ['http://me:secret@127.0.0.1:8000', /credentials/],
    ['127.0.0.1:8000', /./],
    ['not a url', /not a URL/],
  ]
  it.each(urls)('refuses the URL %s', (url, message) =>
    register({ url }, { status: 400, reason: 'forbidden_url', message }),
  )

  it('refuses an unreachable server, and keeps it only on request', async () => {
    const gone = await FakeServer.start(() => {})
    const { url } = gone
    await gone.close()
    const unreachable = {
      status: 422,
      reason: 'server_unreachable',
      message: url.slice(7),
    } as const
    await register({ url }, { ...unreachable, hint: /keep/ })
    await register({ url, ifUnreachable: 'keep' }, { ...unreachable, hint: /engine.*model/ })
    const server = await service.api.servers.register.mutate({
      name: 'loading',
      url,
      engine: 'vllm',
      model: 'later',
      ifUnreachable: 'keep',
    })
    expect(server).toMatchObject({ state: 'unreachable', model: 'later' })
    await service.api.servers.remove.mutate({ name: 'loading' })
  })

  it('refuses a server that redirects', () =>
    register(
      { url: redirecting.url },
      { status: 422, reason: 'server_redirects', message: rm.url, hint: /never followed/ },
    ))

  it('refuses a URL that serves web pages', () =>
    register({ url: page.url }, { status: 422, reason: 'server_not_recognized', message: /./ }))

  it('refuses a model that the server does not serve', () =>
    register(
      { url: rm.url, model: 'another' },
      { status: 422, reason: 'model_not_served', message: /another.*simulated-rm/ },
    ))

  it('refuses invalid names and unsupported settings', async () => {
    await register({ url: rm.url, name: 'a b' }, invalid(/^name: /))
    await register({ url: rm.url, maxInFlight: 0 }, invalid(/^maxInFlight: /))
    await register({ url: rm.url, engine: 'vlm' }, invalid(/^engine: .*"vllm"/))
    await register({ url: rm.url, model: 'a\u0000b' }, invalid(/^model: .*NUL/))
    await register({ url: rm.url, tags: ['\ud800'] }, invalid(/^tags\[0\]: .*surrogate/))
    await register({ url: rm.url, apiKey: 'a\nb' }, invalid(/^apiKey: /))
    await register({ url: rm.url, rpm: 0 }, invalid(/^rpm: /))
    await register({ url: rm.url, chatTemplate: '{% for' }, invalid(/^chatTemplate: .*read/))
    await register(
      { url: rm.url, chatTemplate: '{{ bos_token }}' },
      invalid(/bos_token without a value/),
    )
    await register({ url: rm.url, chatTemplate: 'Q' }, invalid(/^chatTemplate: .*omits /))
    await register(
      { url: rm.url, chatTemplate: '{{ messages }}', engine: 'http' },
      { status: 422, reason: 'unsupported_setting', message: 'chatTemplate' },
    )
    // The server returns scores but no chat replies.
    await register(
      { url: rm.url, kind: 'generative' },
      { status: 422, reason: 'server_not_recognized', message: 'chat' },
    )
  })

  it('reports an unknown server', () =>
    refused(
      'servers.drain',
      { name: 'nobody' },
      { status: 404, reason: 'server_not_found', message: '"nobody"' },
    ))
})

describe('a reward model with a fault in every answer', () => {
  const UNAVAILABLE = ['no_server', 'timeout']
  const faults: [fault: string, reasons: string[], detail: RegExp][] = [
    ['nan', UNAVAILABLE, /NaN/],
    ['drop', ['transport', ...UNAVAILABLE], /./],
    ...inFullRun<[string, string[], RegExp]>(
      ['null', UNAVAILABLE, /null/],
      ['html', UNAVAILABLE, /HTML/],
      ['redirect', UNAVAILABLE, /redirect/],
      ['refused', UNAVAILABLE, /400/],
    ),
  ]

  it.each(faults)(
    'fails its samples on the fault "%s" with a reason of %j, and never scores them',
    async (fault, reasons, detail) => {
      await rm.control({ faults: { [fault]: 1 } })
      try {
        const { batchId } = await service.api.batches.submit.mutate(
          submit(
            { reward: { model: 'simulated-rm', maxAttempts: 2, timeoutMs: 1_500 } },
            { uid: 'a' },
            { uid: 'b', response: 'other' },
          ),
        )
        const end = await service.api.batches.wait.query({ batchId, waitMs: 30_000 })
        expect(end).toMatchObject({
          status: 'completed',
          scored: 0,
          failed: 2,
          mean: null,
          std: null,
        })
        const columns = await service.api.batches.results.query({ batchId })
        expect(columns).toMatchObject({
          status: ['failed', 'failed'],
          score: [null, null],
          rawScore: [null, null],
          substituted: [false, false],
        })
        for (const reason of columns.reason) expect(reasons).toContain(reason)
        const { attemptLog } = await service.api.samples.get.query({ id: `${batchId}-0` })
        expect(attemptLog.at(-1)?.detail).toMatch(detail)
      } finally {
        await rm.control({ faults: null })
        // Draining and then resuming the server clears its ejection in the workers.
        await service.api.servers.drain.mutate({ name: 'rm' })
        await service.api.servers.resume.mutate({ name: 'rm' })
      }
    },
  )
})
