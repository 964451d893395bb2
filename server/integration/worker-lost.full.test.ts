import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { rollouts, type Sample, type Submit } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import { type FakeCall, FakeServer } from '../engines/testing/fake-server.ts'

const MODEL = 'killer'
/**
 * Latency of the model. With this latency, samples that run alone, one after the other, take longer than a job's
 * heartbeat allows (10 s).
 */
const DELAY_MS = 400
const POISON = 'POISON'

let service: Service
let rm: FakeServer
let onText: (text: string) => Promise<void> | void = () => {}

beforeAll(async () => {
  rm = await FakeServer.start(answer)
  service = await Service.start({ env: { REWARDOPS_WORKERS: '1' } })
  // The limit allows many concurrent jobs, so that other samples are in flight with the poison sample and are lost as
  // well.
  await service.api.servers.register.mutate({
    name: 'rm',
    url: rm.url,
    engine: 'vllm',
    maxInFlight: 1_000,
  })
})

afterAll(async () => {
  const problems = service?.log.problems(['results could not be written'])
  const end = await service?.stop().finally(() => service.destroy())
  await rm?.close()
  expect(end?.code).toBe(0)
  expect(problems).toEqual([])
})

function answer(call: FakeCall, res: ServerResponse): void {
  const send = (body: object) =>
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  if (call.path === '/v1/models') {
    send({ data: [{ id: MODEL, owned_by: 'vllm', max_model_len: 32_768 }] })
  } else if (call.path === '/version') send({ version: '0.29.0' })
  else if (call.path !== '/classify' || call.method !== 'POST') res.writeHead(404).end()
  else {
    const { messages } = JSON.parse(call.body) as { messages: { content: string }[] }
    const text = messages.at(-1)?.content as string
    setTimeout(
      async () => {
        await onText(text)
        if (!call.aborted) send({ data: [{ index: 0, probs: [text.length] }] })
      },
      text === POISON ? 0 : DELAY_MS,
    )
  }
}

const submit = (samples: Sample[], fields: Partial<Submit> = {}) =>
  service.api.batches.submit.mutate({
    run: 'worker-lost',
    step: 1,
    samples,
    reward: { model: MODEL },
    ...fields,
  })

it('a sample that kills its workers fails after the third death; its neighbors are scored', async () => {
  const AT = 20
  let kills = 0
  const samples = rollouts(48, 8).map((s, i) => (i === AT ? { ...s, response: POISON } : s))
  onText = async (text) => {
    if (text !== POISON) return
    kills++
    await service.kill9('worker')
  }
  const { batchId } = await submit(samples)
  const followed = followBatch(service, batchId)
  await followed.done
  onText = () => {}
  const results = await expectExactlyOnce(service, followed, 48, 6)
  expect(results.filter((r) => r.status !== 'scored').map((r) => [r.index, r.reason])).toEqual([
    [AT, 'worker_lost'],
  ])
  expect(results.map((r) => r.score)).toEqual(
    samples.map((s, i) => (i === AT ? null : s.response.length)),
  )
  expect(kills).toBe(3)
}, 180_000)

it('samples whose results the database refuses are scored again', async () => {
  onText = () => {}
  // The database refuses results with a certain score, as on a full disk, so the samples are not at fault.
  const refused = rollouts(1)[0]!.response.length
  await service.sql(
    `alter table sample add constraint refused check (score is distinct from ${refused}) not valid`,
  )
  const samples = rollouts(32, 8)
  const { batchId } = await submit(samples)
  const followed = followBatch(service, batchId)
  await waitFor(
    'a refused flush',
    () => service.log.find('results could not be written').length > 0,
  )
  await service.sql('alter table sample drop constraint refused')
  await followed.done
  const results = await expectExactlyOnce(service, followed, 32, 4)
  expect(results.map((r) => r.score)).toEqual(samples.map((s) => s.response.length))
}, 120_000)

it('a worker that was paused until its jobs were requeued sends none of their texts again', async () => {
  const SLOTS = 32
  const answered: string[] = []
  const two = await Service.start({ env: { REWARDOPS_WORKERS: '2' } })
  try {
    await two.api.servers.register.mutate({
      name: 'rm',
      url: rm.url,
      engine: 'vllm',
      maxInFlight: SLOTS,
    })
    onText = (text) => void answered.push(text)
    const samples = rollouts(960, 8)
    const { batchId } = await two.api.batches.submit.mutate({
      run: 'worker-paused',
      step: 1,
      samples,
      reward: { model: MODEL },
    })
    const followed = followBatch(two, batchId)
    const [paused] = (await two.pids()).workers as [number]
    await waitFor('texts in flight of both workers', async () => {
      const [row] = await two.sql<{ n: number }>(
        'select count(distinct worker_id)::int as n from claim',
      )
      return answered.length > 2 * SLOTS && row?.n === 2
    })
    process.kill(paused, 'SIGSTOP')
    const answeredBefore = answered.length
    const held = await two.sql<{ batch: number; first: number; last: number }>(
      `select batch_id as batch, first_idx as first, last_idx as last from claim
       where worker_id = (select id from process where pid = ${paused} and role = 'worker')`,
    )
    const stored = new Set(
      (
        await two.sql<{ idx: number }>(
          'select idx from sample where batch_id = $1 and status = 2',
          [Number(batchId.slice(1))],
        )
      ).map(({ idx }) => samples[idx]?.response),
    )
    const heldSamples = held.reduce((n, { first, last }) => n + last - first + 1, 0)
    // Requeued jobs are fetched last. The wait ends while the other worker is still scoring them.
    await waitFor(
      'the other worker to score samples that the paused one held',
      async () => {
        const ended = await Promise.all(
          held.map(({ batch, first, last }) =>
            two.sql(
              'select 1 from sample where batch_id = $1 and idx between $2 and $3 and status = 2',
              [batch, first, last],
            ),
          ),
        )
        return ended.flat().length > heldSamples / 2
      },
      60_000,
    )
    process.kill(paused, 'SIGCONT')
    await followed.done
    await expectExactlyOnce(two, followed, 960, 120)
    // Texts in flight at the pause, and answers that the paused worker had not stored, are requested again.
    const unread = new Set(
      answered.slice(0, answeredBefore + SLOTS).filter((text) => !stored.has(text)),
    )
    const answeredTwice = answered.filter(
      (text, i) => answered.indexOf(text) < i && !unread.has(text),
    )
    const workers = await two.sql<{ pid: number; state: string; requeued: number }>(
      "select pid, state, requeued from process where role = 'worker'",
    )
    expect(workers.map(({ state }) => state)).toEqual(['alive', 'alive'])
    // If a busy machine makes the other worker miss five reports, the texts of that worker are sent again as well.
    const isOtherLost = workers.some(({ pid, requeued }) => pid !== paused && requeued > 0)
    if (isOtherLost)
      console.warn('the other worker was declared dead too: its texts are not compared')
    else expect(answeredTwice).toEqual([])
  } finally {
    onText = () => {}
    await two.stop().finally(() => two.destroy())
  }
}, 120_000)
