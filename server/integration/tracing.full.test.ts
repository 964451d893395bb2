import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createRewardOpsClient } from '../../packages/client-typescript/src/index.ts'
import {
  type DecodedSpan,
  hasOtlpReceiver,
  OtlpReceiver,
} from '../../testkit/service/otlp-receiver/process.ts'
import { padding, rollouts } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'

const isInstalled = hasOtlpReceiver()
if (!isInstalled) {
  console.warn(
    'opentelemetry-proto is not installed (REWARDOPS_OTLP_PYTHON): traces are not tested',
  )
}

const HOOK_MS = 180_000
const SAMPLES = 1_024
const GROUPS = 128

describe.skipIf(!isInstalled).each(['http/protobuf', 'http/json'])('traces over %s', (protocol) => {
  let receiver: OtlpReceiver
  let service: Service | undefined
  let scorer: Server
  let received: (string | undefined)[] = []

  beforeAll(async () => {
    receiver = await OtlpReceiver.start()
    scorer = await startScorer()
    service = await Service.start({
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
      },
    })
    const { port } = scorer.address() as AddressInfo
    await service.api.servers.register.mutate({
      name: 'scorer',
      url: `http://127.0.0.1:${port}/score`,
      engine: 'http',
      model: 'rm',
      maxInFlight: 64,
    })
  }, HOOK_MS)
  afterAll(async () => {
    await stopCleanly(service, () => receiver?.stop())
    scorer?.close()
  })

  /** A custom scorer that answers every tenth request with 500, so that samples have several attempts. */
  async function startScorer(): Promise<Server> {
    let requests = 0
    const server = createServer((req, res) => {
      let body = ''
      req.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      req.on('end', () => {
        const { samples } = JSON.parse(body) as { samples: unknown[] }
        if (samples.length > 0) received.push(req.headers.traceparent as string | undefined)
        if (samples.length > 0 && ++requests % 10 === 0) return res.writeHead(500).end('{}')
        return res.end(JSON.stringify({ results: samples.map(() => ({ score: 0.5 })) }))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return server
  }

  const idOf = (n: number, digits: number) => n.toString(16).padStart(digits, '0')
  let traces = 0

  async function scored(flags: string, samples = rollouts(SAMPLES, SAMPLES / GROUPS)) {
    const [traceId, parentId] = [idOf(++traces, 32), idOf(traces, 16)]
    received = []
    const client = createRewardOpsClient({
      url: (service as Service).url,
      traceHeaders: () => ({
        traceparent: `00-${traceId}-${parentId}-${flags}`,
        tracestate: 'vendor=1',
      }),
    })
    const { summary } = await client.computeRmScore({
      run: `traced-${traces}`,
      step: 3,
      samples,
      reward: { model: 'rm', maxAttempts: 8 },
    })
    return { traceId, parentId, batchId: summary.batchId, summary }
  }

  async function spansOf(traceId: string): Promise<DecodedSpan[]> {
    return waitFor(
      'the spans of the batch',
      async () => {
        const [due] = await (service as Service).sql<{ n: number }>(
          'select count(*)::int as n from batch where trace_due',
        )
        const spans = (await receiver.spans()).filter((span) => span.traceId === traceId)
        return due?.n === 0 && spans
      },
      120_000,
    )
  }

  async function ledger(batchId: string): Promise<{ idx: number; uid: string }[]> {
    return (service as Service).sql(
      `select s.idx, g.uid from sample s
         join sample_group g on g.batch_id = s.batch_id and g.no = s.group_no
         left join attempt a on a.batch_id = s.batch_id and a.idx = s.idx
       where s.batch_id = $1 order by s.idx`,
      [Number(batchId.slice(1))],
    )
  }

  it('are decoded span by span, with the parents and counts of the stored attempts', {
    timeout: 240_000,
  }, async () => {
    const { traceId, parentId, batchId } = await scored('01')
    const spans = await spansOf(traceId)
    const named = (name: string) => spans.filter((span) => span.name === name)
    const [batch] = named('rl.reward.batch')
    const groups = named('rl.reward.group')
    const attempts = named('rl.reward.attempt')
    const calls = named('score rm')
    const attempted = await ledger(batchId)
    expect(spans).toHaveLength(1 + GROUPS + 2 * attempted.length)
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length)
    expect(attempts.length).toBe(attempted.length)
    expect(attempts.length).toBeGreaterThan(SAMPLES)
    expect([batch?.parentId, batch?.state, batch?.kind]).toEqual([parentId, 'vendor=1', 2])
    expect(groups).toHaveLength(GROUPS)
    expect(groups.every((group) => group.parentId === batch?.spanId)).toBe(true)
    const groupIds = new Map(
      groups.map((one) => [one.attributes['rewardops.group.uid'], one.spanId]),
    )
    const key = (idx: unknown, parent: unknown) => `${idx} ${parent}`
    expect(
      attempts.map((one) => key(one.attributes['rewardops.sample.id'], one.parentId)).sort(),
    ).toEqual(attempted.map(({ idx, uid }) => key(`${batchId}-${idx}`, groupIds.get(uid))).sort())
    const attemptIds = attempts.map(({ spanId }) => spanId).sort()
    expect(calls.map((call) => call.parentId).sort()).toEqual(attemptIds)
    expect(calls.every((call) => call.kind === 3)).toBe(true)
    // Each request carried the id of its own span. Some spans have no request, because the router may abandon a request
    // before it is sent.
    const callOf = new Map(calls.map((call) => [call.parentId, call.spanId]))
    const sent = new Set(received)
    expect(sent.size).toBe(received.length)
    const known = new Set(calls.map(({ spanId }) => `00-${traceId}-${spanId}-01`))
    expect([...sent].filter((header) => !known.has(header as string))).toEqual([])
    const outcomeOf = ({ attributes }: DecodedSpan) => attributes['rewardops.attempt.outcome']
    const answered = attempts.filter((one) => ['ok', 'fault'].includes(outcomeOf(one) as string))
    expect(
      answered.filter(({ spanId }) => !sent.has(`00-${traceId}-${callOf.get(spanId)}-01`)),
    ).toEqual([])
    for (const { startMs, endMs } of spans) expect(endMs).toBeGreaterThanOrEqual(startMs)
    expect(spans.every(({ type }) => type.includes(protocol.slice(5)))).toBe(true)
    expect(batch).toMatchObject({
      scope: 'rewardops',
      resource: { 'service.name': 'rewardops', 'deployment.environment.name': 'test' },
      attributes: { 'rewardops.batch.id': batchId, 'rewardops.step': 3 },
    })
    expect(attempts.filter((one) => one.events.length > 0)).toHaveLength(SAMPLES)
    const scores = attempts.filter((one) => one.events.length > 0)
    expect(scores.every((one) => outcomeOf(one) === 'ok' && !one.isError)).toBe(true)
    expect(attempts.filter((one) => one.isError).map(outcomeOf)).toEqual(
      attempts.map(outcomeOf).filter((outcome) => outcome === 'fault'),
    )
    const metrics = await (service as Service).raw('/metrics')
    expect(metrics.text).toContain(`rewardops_trace_spans_exported_total ${spans.length}`)
  })

  it('follow a batch through the ingest thread', async () => {
    const samples = rollouts(64).map((one) => ({ ...one, prompt: padding(40_000) }))
    const { traceId, batchId } = await scored('01', samples)
    const spans = await spansOf(traceId)
    expect(spans).toHaveLength(1 + 8 + 2 * (await ledger(batchId)).length)
  })

  it('are not recorded for a trace that is not sampled, whose context is passed on', async () => {
    const { traceId, parentId } = await scored('00', rollouts(16))
    expect(new Set(received)).toEqual(new Set([`00-${traceId}-${parentId}-00`]))
    expect(await spansOf(traceId)).toEqual([])
  })
})
