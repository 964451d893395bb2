import { AsyncLocalStorage } from 'node:async_hooks'
import { createServer } from 'node:net'
import { type Context, context, propagation, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import {
  type SimulatedServers,
  startSimulatedServers,
} from '../../../testkit/processes/simulated-rm.ts'
import { itInFullRun } from '../../../testkit/service/full-run.ts'
import { rollouts, sample } from '../../../testkit/service/rollouts.ts'
import { Service } from '../../../testkit/service/service.ts'
import { waitFor } from '../../../testkit/service/wait-for.ts'
import { createRewardOpsClient, type RewardChunk, type RewardOpsClient } from '../src/index.ts'
import { CLIENT_VERSION } from '../src/reach.ts'

let service: Service
let rm: SimulatedServers
let client: RewardOpsClient
const reports: string[] = []

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

beforeAll(async () => {
  const env = { PORT: String(await freePort()), REWARDOPS_API_KEYS: 'pT4wZ81mQx7RkV0s9LcB' }
  const headers = { authorization: 'Bearer pT4wZ81mQx7RkV0s9LcB' }
  ;[service, rm] = await Promise.all([
    Service.start({ env, headers }),
    startSimulatedServers(['--latency', 'uniform:5,60']),
  ])
  client = createRewardOpsClient({
    url: `${service.url}/`,
    apiKey: 'pT4wZ81mQx7RkV0s9LcB',
    onTrouble: (sentence) => reports.push(sentence),
  })
  await client.api.servers.register.mutate({ name: 'rm', url: rm.url })
})

afterAll(async () => {
  await service?.stop().finally(() => service.destroy())
  await rm?.stop()
})

const indexes = (chunks: RewardChunk[]) =>
  chunks.flatMap((chunk) => chunk.results.map((r) => r.index)).sort((a, b) => a - b)

it('stores the configuration and tags of a run before its first batch', async () => {
  const config = { model: 'qwen3-8b', optimizer: { lr: 1e-6 } }
  await client.updateRun({ run: 'configured', config, addTags: ['grpo'] })
  await client.updateRun({ run: 'configured', addTags: ['ablation'] })
  expect(await client.api.runs.config.query({ run: 'configured' })).toEqual({
    ...{ run: 'configured', config, tags: ['grpo', 'ablation'] },
  })
})

it('streams stored samples, and names a wrong filter in the error', async () => {
  const samples = rollouts(3, 3).map((one, i) => ({ ...one, score: i }))
  const { batchId } = await client.submit({ run: 'stored', step: 1, samples })
  await client.wait(batchId)
  const columns = ['index', 'score']
  const text = await new Response(
    await client.exportSamples({ batch: batchId, scoreMin: 1, columns }),
  ).text()
  expect(text).toBe('{"index":1,"score":1}\n{"index":2,"score":2}\n')
  const parquet = await client.exportSamples({ run: 'stored', step: '0-9', format: 'parquet' })
  expect((await new Response(parquet).text()).slice(0, 4)).toBe('PAR1')
  await expect(client.exportSamples({ batch: 'b999999' })).rejects.toMatchObject({
    ...{ name: 'RewardOpsClientError', reason: 'batch_not_found' },
  })
})

describe('a pipeline', () => {
  it('returns whole groups with at least the requested samples, and the remaining count', async () => {
    const samples = rollouts(96, 8).map((one, i) => ({ ...one, responseLength: i }))
    const pipeline = client.computeRewardPipeline({
      run: 'ts',
      step: 1,
      groupSize: 8,
      reward: { model: 'simulated-rm' },
      samples,
    })
    const chunks: RewardChunk[] = []
    for await (const chunk of pipeline.get(20)) chunks.push(chunk)
    expect(indexes(chunks)).toEqual([...samples.keys()])
    expect(chunks.slice(0, -1).every((chunk) => chunk.results.length >= 20)).toBe(true)
    let left = 96
    for (const chunk of chunks) {
      left -= chunk.results.length
      expect(chunk.remaining).toBe(left)
      expect(chunk.results.length % 8).toBe(0)
      for (const result of chunk.results)
        expect(result.position).toBe(result.index === 0 ? null : result.index - 1)
    }
    expect(chunks.at(-1)?.done).toBe(true)
    expect(pipeline.done).toBe(true)
    expect(await pipeline.next(20)).toBeNull()
  })

  it('continues after its cursor in another process', async () => {
    const batch = {
      run: 'ts',
      step: 2,
      reward: { model: 'simulated-rm' },
      samples: rollouts(64, 4, 'resumed'),
      idempotencyKey: 'ts-2',
    }
    const first = client.computeRewardPipeline(batch)
    const before = await first.next(16)
    const other = createRewardOpsClient({ url: service.url, apiKey: 'pT4wZ81mQx7RkV0s9LcB' })
    const second = other.computeRewardPipeline(batch, { after: before?.cursor as string })
    expect(await second.accepted).toEqual({ ...(await first.accepted), duplicate: true })
    const rest: RewardChunk[] = []
    for await (const chunk of second.get(16)) rest.push(chunk)
    expect(indexes([before as RewardChunk, ...rest])).toEqual([...batch.samples.keys()])
    const { batchId } = await first.accepted
    const again: RewardChunk[] = []
    for await (const chunk of client.pipelineOf(batchId).get(1_000)) again.push(chunk)
    expect(indexes(again)).toEqual([...batch.samples.keys()])
    const shared = client.pipelineOf(batchId)
    const both = await Promise.all([shared.next(32), shared.next(32)])
    expect(indexes(both as RewardChunk[])).toEqual([...batch.samples.keys()])
  })

  it('can be cancelled, and reports why a batch is refused', async () => {
    await rm.control({ latency: 600_000 })
    const pipeline = client.computeRewardPipeline({
      run: 'ts',
      step: 3,
      reward: { model: 'simulated-rm' },
      samples: rollouts(16, 8, 'cancelled'),
    })
    expect(await pipeline.cancel()).toMatchObject({ status: 'cancelled' })
    const chunk = await pipeline.next(16)
    expect(chunk?.results.map((r) => r.reason)).toEqual(new Array(16).fill('cancelled'))
    await rm.control({ latency: 0 })
    const refused = client.computeRewardPipeline({
      run: 'ts',
      step: 3,
      reward: { model: 'nobody' },
      samples: [sample()],
    })
    await expect(refused.next(1)).rejects.toMatchObject({
      name: 'RewardOpsClientError',
      reason: 'unknown_model',
      message: expect.stringContaining('simulated-rm'),
      hint: expect.stringContaining('servers.register'),
      requestId: expect.any(String),
    })
  })

  it('is aborted by its signal', async () => {
    await rm.control({ latency: 600_000 })
    const ended = new AbortController()
    const pipeline = client.computeRewardPipeline(
      { run: 'ts', step: 4, reward: { model: 'simulated-rm' }, samples: [sample()] },
      { signal: ended.signal },
    )
    const next = pipeline.next(1)
    await pipeline.accepted
    ended.abort()
    await expect(next).rejects.toThrow()
    await rm.control({ latency: 0 })
    await pipeline.cancel()
  })
})

describe('the other calls', () => {
  it('score a whole batch and a single sample, and rescore a batch', async () => {
    const samples = rollouts(40, 4, 'barrier')
    const { summary, results } = await client.computeRmScore({ run: 'ts', step: 5, samples })
    expect(summary).toMatchObject({ status: 'completed', scored: 40, mean: 0.5 })
    expect(results.index).toEqual([...samples.keys()])
    expect(results.score).toEqual(samples.map((_, i) => (i % 2 === 0 ? 1 : 0)))
    const one = await client.computeScore({ run: 'ts', step: 5, sample: sample() })
    expect(one).toMatchObject({ status: 'scored', score: 1 })
    const { batchId } = await client.rescore({
      batchId: summary.batchId,
      reward: { model: 'simulated-rm' },
    })
    expect(await client.wait(batchId)).toMatchObject({
      rescoredFrom: summary.batchId,
      rewardName: 'simulated-rm',
      scored: 40,
    })
  })

  itInFullRun('return all pages of results, with keys that only some samples have', async () => {
    const samples = rollouts(10_500, 4, 'pages').map((one, i) =>
      i === 10_200 ? { ...one, response: '#### none' } : one,
    )
    const { batchId } = await client.submit({ run: 'ts', step: 6, samples })
    await client.wait(batchId)
    const results = await client.results(batchId)
    expect(results.index).toEqual([...samples.keys()])
    for (const column of Object.values(results.rewardExtraInfo)) expect(column).toHaveLength(10_500)
    expect(results.advantage).toHaveLength(10_500)
  })
})

it('refuses a service of another minor version before 1.0', async () => {
  const session = { result: { data: { version: '0.2.0', signedIn: true } } }
  const other = createRewardOpsClient({
    url: 'http://127.0.0.1:1',
    fetch: async () => Response.json(session),
  })
  await expect(other.connect()).rejects.toMatchObject({ reason: 'version_mismatch' })
})

describe('an answer without a result or a reason', () => {
  function answering(first: Response) {
    let calls = 0
    const session = { result: { data: { version: CLIENT_VERSION, signedIn: true } } }
    const later = { result: { data: { batchId: 'b1' } } }
    const other = createRewardOpsClient({
      ...{ url: 'http://127.0.0.1:1', onTrouble: () => {} },
      fetch: async (input) => {
        if (String(input).includes('session.get')) return Response.json(session)
        return calls++ === 0 ? first : Response.json(later)
      },
    })
    return { other, calls: () => calls }
  }

  const html = (status: number) =>
    new Response('<html>nginx</html>', { status, headers: { 'content-type': 'text/html' } })

  it.each([
    [200, 'JSON', () => Response.json({})],
    [502, 'JSON', () => Response.json({}, { status: 502 })],
    [200, 'HTML', () => html(200)],
    [502, 'HTML', () => html(502)],
  ])(
    'is an outage if its status is %s (%s): calls are retried, unless a retry could run them twice',
    async (status, _, answer) => {
      const read = answering(answer())
      await read.other.api.batches.get.query({ batchId: 'b1' })
      expect(read.calls()).toBe(2)
      const change = answering(answer())
      await expect(change.other.api.demo.load.mutate()).rejects.toMatchObject({
        ...{ reason: 'unreachable', message: expect.stringContaining(`HTTP ${status}`) },
      })
      expect(change.calls()).toBe(1)
    },
  )

  it.each([
    [404, 'not_rewardops', () => Response.json({ detail: 'Not Found' }, { status: 404 })],
    [404, 'not_rewardops', () => html(404)],
    [413, 'body_too_large', () => html(413)],
  ])('with status %s is refused as %s, and is not retried', async (_, reason, answer) => {
    const { other, calls } = answering(answer())
    await expect(other.api.batches.get.query({ batchId: 'b1' })).rejects.toMatchObject({ reason })
    expect(calls()).toBe(1)
  })
})

it('a call that was sent is not sent again when the service stops answering meanwhile', async () => {
  const session = { result: { data: { version: CLIENT_VERSION, signedIn: true } } }
  let sent = 0
  const hanging = createRewardOpsClient({
    ...{ url: 'http://127.0.0.1:1', onTrouble: () => {} },
    fetch: async (input, init) => {
      if (String(input).includes('session.get')) {
        if (sent > 0) throw new TypeError('fetch failed')
        return Response.json(session)
      }
      sent++
      return new Promise<Response>((_, reject) =>
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason)),
      )
    },
  })
  await expect(hanging.api.demo.load.mutate()).rejects.toMatchObject({ reason: 'unreachable' })
  expect(sent).toBe(1)
})

it('a score that takes longer than fetch waits is no outage while the service is reachable', async () => {
  const session = { result: { data: { version: CLIENT_VERSION, signedIn: true } } }
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  try {
    let sent = 0
    const slow = createRewardOpsClient({
      ...{ url: 'http://127.0.0.1:1', onTrouble: () => {} },
      fetch: async (input) => {
        if (String(input).includes('session.get')) return Response.json(session)
        if (++sent > 3) return Response.json({ result: { data: { score: 1 } } })
        await new Promise((resolve) => setTimeout(resolve, 300_000))
        throw new TypeError('fetch failed', { cause: { code: 'UND_ERR_HEADERS_TIMEOUT' } })
      },
    })
    const scored = slow.computeScore({ run: 'ts', step: 9, sample: sample() }).catch((e) => e)
    await vi.advanceTimersByTimeAsync(1_000_000)
    expect(await scored).toEqual({ score: 1 })
    expect(sent).toBe(4)
  } finally {
    vi.useRealTimers()
  }
})

it('a service whose calls fail at once is given up, although it is reachable', async () => {
  const session = { result: { data: { version: CLIENT_VERSION, signedIn: true } } }
  const broken = createRewardOpsClient({
    ...{ url: 'http://127.0.0.1:1', onTrouble: () => {}, outageMs: 300 },
    fetch: async (input) =>
      String(input).includes('session.get')
        ? Response.json(session)
        : Response.json({}, { status: 502 }),
  })
  await expect(broken.api.batches.get.query({ batchId: 'b1' })).rejects.toMatchObject({
    reason: 'unreachable',
  })
})

it('a call whose connection was refused is sent again, because the service did not execute it', async () => {
  const session = { result: { data: { version: CLIENT_VERSION, signedIn: true } } }
  let sent = 0
  const refused = createRewardOpsClient({
    ...{ url: 'http://127.0.0.1:1', onTrouble: () => {} },
    fetch: async (input) => {
      if (String(input).includes('session.get')) return Response.json(session)
      if (++sent > 1) return Response.json({ result: { data: { batchId: 'b1' } } })
      throw new TypeError('fetch failed', { cause: { code: 'ECONNREFUSED' } })
    },
  })
  expect(await refused.api.demo.load.mutate()).toMatchObject({ batchId: 'b1' })
  expect(sent).toBe(2)
})

it('a call with a value that JSON cannot hold is refused, and is not sent', async () => {
  const session = { result: { data: { version: CLIENT_VERSION, signedIn: true } } }
  let sent = 0
  const other = createRewardOpsClient({
    ...{ url: 'http://127.0.0.1:1', onTrouble: () => {} },
    fetch: async (input) => {
      if (!String(input).includes('session.get')) sent++
      return Response.json(session)
    },
  })
  const batch = (fields: object) => ({ run: 'r', step: 1, samples: [sample(fields)] })
  await expect(other.submit(batch({ extraInfo: { id: 1n } }))).rejects.toMatchObject({
    ...{ reason: 'invalid_input', message: expect.stringContaining('BigInt') },
  })
  for (const fields of [{ score: Number.NaN }, { responseLength: Infinity }]) {
    const reason = { reason: 'invalid_input', message: expect.stringMatching(/NaN|Infinity/) }
    await expect(other.submit(batch(fields))).rejects.toMatchObject(reason)
    const one = { run: 'r', step: 1, sample: sample(fields) }
    await expect(other.computeScore(one)).rejects.toMatchObject(reason)
  }
  expect(sent).toBe(0)
})

it('a call whose answer breaks off is retried', async () => {
  const session = { result: { data: { version: CLIENT_VERSION, signedIn: true } } }
  let calls = 0
  const broken = new ReadableStream({
    start(stream) {
      stream.enqueue(new TextEncoder().encode('{"result": '))
      stream.error(new TypeError('terminated'))
    },
  })
  const client = createRewardOpsClient({
    ...{ url: 'http://127.0.0.1:1', onTrouble: () => {} },
    fetch: async (input) => {
      if (String(input).includes('session.get')) return Response.json(session)
      calls++
      const headers = { 'content-type': 'application/json' }
      return calls === 1
        ? new Response(broken, { headers })
        : Response.json({ result: { data: { batchId: 'b7' } } })
    },
  })
  expect(await client.submit({ run: 'r', step: 1, samples: [sample()] })).toEqual({ batchId: 'b7' })
  expect(calls).toBe(2)
})

it('the signal of a pipeline also ends the wait for its submit', async () => {
  const session = { result: { data: { version: CLIENT_VERSION, signedIn: true } } }
  const data = { reason: 'queue_full', httpStatus: 429, hint: '', retryAfterMs: 60_000 }
  const ended = new AbortController()
  const full = createRewardOpsClient({
    ...{ url: 'http://127.0.0.1:1', onTrouble: () => {} },
    fetch: async (input) => {
      if (String(input).includes('session.get')) return Response.json(session)
      setImmediate(() => ended.abort())
      return Response.json({ error: { message: 'full', code: -32_000, data } }, { status: 429 })
    },
  })
  const batch = { run: 'r', step: 1, samples: [sample()] }
  const pipeline = full.computeRewardPipeline(batch, { signal: ended.signal })
  await expect(pipeline.next(1)).rejects.toThrow()
})

describe('a service that fails and recovers', { timeout: 120_000 }, () => {
  itInFullRun('loses no reward and duplicates none', async () => {
    await rm.control({ latency: 'uniform:100,1500' })
    const samples = rollouts(1_024, 8, 'outage')
    const pipeline = client.computeRewardPipeline({
      run: 'ts',
      step: 7,
      reward: { model: 'simulated-rm' },
      samples,
    })
    const chunks: RewardChunk[] = [(await pipeline.next(8)) as RewardChunk]
    reports.length = 0
    const rest = (async () => {
      for await (const chunk of pipeline.get(64)) chunks.push(chunk)
    })()
    await service.kill9('server')
    await waitFor('a report of the outage', () => reports.length > 0)
    await service.restart()
    await rest
    expect(indexes(chunks)).toEqual([...samples.keys()])
    expect(reports).toHaveLength(1)
    expect(reports[0]).toMatch(
      /^No rewardops service answers at http:\/\/\S+: .+\. Retrying for \d+ s\.$/,
    )
  })

  itInFullRun('is detected while it hangs, and its calls are retried', async () => {
    const { server } = await service.pids()
    const pipeline = client.computeRewardPipeline({
      run: 'ts',
      step: 8,
      reward: { model: 'simulated-rm' },
      samples: rollouts(64, 8, 'still'),
    })
    await pipeline.accepted
    reports.length = 0
    process.kill(server, 'SIGSTOP')
    try {
      const next = pipeline.next(64)
      await waitFor('a report of the outage', () => reports.length > 0)
      expect(reports[0]).toMatch(/no answer within 2 s/)
      process.kill(server, 'SIGCONT')
      expect(indexes([(await next) as RewardChunk])).toEqual(
        Array.from({ length: 64 }, (_, i) => i),
      )
    } finally {
      process.kill(server, 'SIGCONT')
    }
  })
})

it('sends the trace context of the active OpenTelemetry span, or the given headers', async () => {
  const active = new AsyncLocalStorage<Context>()
  context.setGlobalContextManager({
    active: () => active.getStore() ?? ROOT_CONTEXT,
    with: (given, call, self, ...args) =>
      active.run(given, () => call.call(self as never, ...args)),
    bind: (_, target) => target,
    enable: () => context as never,
    disable: () => context as never,
  })
  propagation.setGlobalPropagator({
    inject(given, carrier, { set }) {
      set(carrier, 'traceparent', trace.getSpanContext(given)?.spanId ?? 'none')
    },
    extract: (given) => given,
    fields: () => [],
  })
  try {
    const sent: (string | null)[] = []
    const options = {
      url: service.url,
      fetch: ((input, init) => {
        if (String(input).includes('batches.submit')) {
          sent.push(new Headers(init?.headers).get('traceparent'))
        }
        return fetch(input, init)
      }) as typeof fetch,
      apiKey: 'pT4wZ81mQx7RkV0s9LcB',
    }
    const batch = { run: 'traced', step: 1, samples: [sample()] }
    const span = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), traceFlags: 1 }
    await context.with(trace.setSpanContext(ROOT_CONTEXT, span), () =>
      createRewardOpsClient(options).submit(batch),
    )
    await createRewardOpsClient({
      ...options,
      traceHeaders: () => ({ traceparent: 'given' }),
    }).submit(batch)
    expect(sent).toEqual([span.spanId, 'given'])
  } finally {
    context.disable()
    propagation.disable()
  }
})
