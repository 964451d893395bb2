import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SimulatedServers } from '../../testkit/processes/simulated-rm.ts'
import type { ApiInputs } from '../../testkit/processes/trpc-call.ts'
import { batchCalls } from '../../testkit/service/batch-calls.ts'
import { expectExactlyOnce, followBatch } from '../../testkit/service/follow-batch.ts'
import { inFullRun, itInFullRun } from '../../testkit/service/full-run.ts'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import {
  hashScore,
  padding,
  rollouts,
  type Sample,
  type Submit,
  sample,
} from '../../testkit/service/rollouts.ts'
import type { Service } from '../../testkit/service/service.ts'
import {
  leaveShared,
  sharedService,
  startWithModel,
} from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { SampleRowDto } from '../contract/pages.ts'
import type { SampleFilter } from '../contract/sample-filter.ts'
import { runningEmbeddedUrl } from '../store/postgres/embedded.ts'

const BY_MODEL = { model: 'simulated-rm' }
const BY_RULE = { function: { name: 'gsm8k' } }

let service: Service
let rm: SimulatedServers

beforeAll(async () => {
  ;[service, rm] = await startWithModel(sharedService().then((shared) => shared.service))
})
afterAll(() => leaveShared(service, () => rm?.stop()))

const calls = batchCalls(() => service, { run: 'rescore', step: 7 })
const { ended, get, results } = calls
const submit = async (samples: Sample[], fields?: Partial<Submit>) =>
  (await calls.submit(samples, fields)).batchId

type Rescore = ApiInputs['batches']['rescore']
const rescore = (batchId: string, reward: Rescore['reward'], idempotencyKey?: string) =>
  service.api.batches.rescore.mutate({
    batchId,
    reward,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
  })
const refused = (input: object) => service.post('batches.rescore', JSON.stringify(input))
const sampleOf = (batchId: string, index: number) =>
  service.api.samples.get.query({ id: `${batchId}-${index}` })

describe('a rescored batch', () => {
  it('has the rollouts of the first batch, its own scores, and a link to its origin', async () => {
    const samples = rollouts(300, 4, 'usual').map((one, i) => ({ ...one, responseLength: i }))
    const first = await submit(samples, { split: 'val', groupSize: 4 })
    await ended(first)
    const before = await results(first)
    const answer = await rescore(first, BY_MODEL)
    expect(answer).toEqual({
      batchId: expect.stringMatching(/^b\d+$/),
      accepted: 300,
      groups: 75,
      duplicate: false,
    })
    const followed = followBatch(service, answer.batchId)
    await followed.done
    const delivered = await expectExactlyOnce(service, followed, 300, 75)
    expect(delivered.map((s) => s.score)).toEqual(samples.map(hashScore))
    expect(await get(answer.batchId)).toMatchObject({
      run: 'rescore',
      step: 7,
      split: 'val',
      rewardName: 'simulated-rm',
      rescoredFrom: first,
    })
    const after = await results(answer.batchId)
    for (const key of ['index', 'uid', 'position'] as const) expect(after[key]).toEqual(before[key])
    expect(await results(first)).toEqual(before)
    expect(await get(first)).toMatchObject({ rescoredFrom: null, rewardName: 'gsm8k' })
    const { items } = await service.api.batches.list.query({ run: 'rescore' })
    expect(items.slice(0, 2).map((b) => [b.batchId, b.rescoredFrom])).toEqual([
      [answer.batchId, first],
      [first, null],
    ])
    expect(await service.api.batches.view.query({ batchId: first })).toMatchObject({
      rescores: [answer.batchId],
      rescoredFrom: null,
    })
  })

  it('is excluded from the counts of its run’s rollouts, and can be filtered', async () => {
    const run = 'counted-apart'
    const train = await submit(rollouts(40, 4, 'train'), { run, step: 1 })
    const val = await submit(rollouts(12, 4, 'val'), { run, step: 1, split: 'val' })
    for (const id of [train, val]) await ended(id)
    const of = (split: 'train' | 'val') => service.api.runs.get.query({ name: run, split })
    const before = { train: await of('train'), val: await of('val') }
    const again = [await rescore(train, BY_MODEL), await rescore(val, BY_MODEL)]
    for (const { batchId } of again) await ended(batchId)
    const twice = await rescore(again[0]!.batchId, BY_RULE)
    await ended(twice.batchId)
    await waitFor('the rescores to be reported', async () => {
      const counts = [(await of('train')).rescored.batches, (await of('val')).rescored.batches]
      return counts.join() === '2,1'
    })
    const after = { train: await of('train'), val: await of('val') }
    expect(after.train).toMatchObject({
      ...{ samples: 40, scored: before.train.scored, failed: 0, batches: 1, earlier: 0 },
      rescored: { batches: 2, samples: 80 },
    })
    expect(after.val).toMatchObject({ samples: 12, rescored: { batches: 1, samples: 12 } })
    expect(after.train.splits).toEqual([
      { split: 'train', batches: 1 },
      { split: 'val', batches: 1 },
    ])
    const runs = await service.api.runs.list.query()
    expect(runs.find(({ name }) => name === run)).toMatchObject({
      ...{ lastStep: 1, batches: 1, validationBatches: 1, rescoredBatches: 3 },
    })

    const rows = async (filter: SampleFilter) =>
      (await service.api.samples.list.query({ run, limit: 200, ...filter })).items
    const kinds = (items: SampleRowDto[]) =>
      [...new Set(items.map((row) => `${row.batchId} ${row.split} ${row.rescoredFrom}`))].sort()
    expect(kinds(await rows({}))).toEqual(
      [
        ...[`${train} train null`, `${val} val null`],
        ...[`${again[0]!.batchId} train ${train}`, `${again[1]!.batchId} val ${val}`],
        `${twice.batchId} train ${again[0]!.batchId}`,
      ].sort(),
    )
    expect(kinds(await rows({ split: 'train', rescored: false }))).toEqual([`${train} train null`])
    expect(await rows({ rescored: true })).toHaveLength(92)
    const count = (filter: SampleFilter) => service.api.samples.count.query({ run, ...filter })
    expect(await count({ rescored: false })).toMatchObject({ samples: 52 })
    expect(await count({ rescored: true, uid: 'train-0' })).toMatchObject({ samples: 8 })
    const facets = await service.api.samples.facets.query({ run, split: 'train', rescored: false })
    expect(facets.batches).toBe(1)
    const { items } = await service.api.batches.list.query({ run, rescored: false })
    expect(items.map(({ batchId }) => batchId)).toEqual([val, train])
    expect(await sampleOf(again[1]!.batchId, 0)).toMatchObject({ split: 'val', rescoredFrom: val })
  })

  it('has every text byte for byte, extra info and odd characters included', async () => {
    const odd = [
      sample({ uid: 'nul', prompt: 'a\u0000b', response: '\u0000\n#### 72' }),
      sample({ uid: 'lone', prompt: '\ud800', response: 'x \udc00\n#### 72' }),
      sample({ uid: 'empty', prompt: '', response: '', groundTruth: null, extraInfo: {} }),
      sample({
        uid: 'chat',
        prompt: [
          { role: 'system', content: 'Be\u0000brief.' },
          { role: 'user', content: '6 · 12?', name: 'Ida' },
        ],
        groundTruth: { value: '72', of: ['\ud800', 1e-7, null] },
        extraInfo: { turns: 2, nested: { deep: ['\u0000'] } },
      }),
      sample({ uid: 'long', response: `${padding(300_000)}\n#### 72` }),
    ]
    const first = await submit(odd)
    const { batchId } = await rescore(first, BY_RULE)
    await ended(batchId)
    for (const [index, one] of odd.entries()) {
      const [a, b] = await Promise.all([sampleOf(first, index), sampleOf(batchId, index)])
      for (const key of ['prompt', 'response', 'groundTruth', 'extraInfo', 'uid'] as const)
        expect(b[key], `${one.uid}: ${key}`).toEqual(a[key])
      expect(b.response).toBe(one.response)
    }
    const stored = await service.sql<{ same: boolean }>(
      `select (t.prompt, t.response, t.encoding, s.data_source, s.group_no) is not distinct from
              (f.prompt, f.response, f.encoding, g.data_source, g.group_no)
          and t.ground_truth is not distinct from f.ground_truth and t.extra_info is not distinct from f.extra_info as same
       from sample_text f join sample g on g.batch_id = f.batch_id and g.idx = f.idx
       left join sample s on s.batch_id = $2 and s.idx = f.idx
       left join sample_text t on t.batch_id = $2 and t.idx = f.idx where f.batch_id = $1`,
      [first, batchId].map((id) => Number(id.slice(1))),
    )
    expect(stored.map((row) => row.same)).toEqual(odd.map(() => true))
  })

  it('scores samples that were given scores, were cancelled or failed', async () => {
    const scoredElsewhere = rollouts(4, 4, 'given').map((one) => ({ ...one, score: 0.25 }))
    const given = await submit(scoredElsewhere, { reward: BY_RULE })
    expect((await ended(given)).mean).toBe(0.25)
    const again = await rescore(given, BY_RULE)
    expect(await ended(again.batchId)).toMatchObject({ status: 'completed', mean: 0.5, scored: 4 })

    await rm.control({ latency: 600_000 })
    const cancelled = await submit(rollouts(64, 8, 'cancelled'), { reward: BY_MODEL })
    await service.api.batches.cancel.mutate({ batchId: cancelled })
    await rm.control({ latency: 0 })
    expect(await ended(cancelled)).toMatchObject({ status: 'cancelled', failed: 64 })
    const ofCancelled = await rescore(cancelled, BY_RULE)
    expect(await ended(ofCancelled.batchId)).toMatchObject({
      status: 'completed',
      scored: 64,
      failed: 0,
      groupsCompleted: 8,
    })

    const failing = [sample({ groundTruth: null }), sample()]
    const failed = await submit(failing, {
      reward: { ...BY_RULE, onFailure: { policy: 'fail_batch' } },
    })
    expect((await ended(failed)).status).toBe('failed')
    const ofFailed = await rescore(failed, BY_MODEL)
    expect(await ended(ofFailed.batchId)).toMatchObject({ status: 'completed', scored: 2 })
  })

  it('includes samples of samples.score', async () => {
    const odd = sample({ uid: 'one', prompt: '\u0000 \ud800' })
    const singles = [odd, sample({ uid: 'two' }), sample({ uid: 'one', response: '#### 1' })]
    const scored = await Promise.all(
      singles.map((one) =>
        service.api.samples.score.mutate({ run: 'rescore-singles', step: 1, sample: one }),
      ),
    )
    const first = scored[0]?.batchId as string
    await service.api.batches.close.mutate({ batchId: first })
    const { batchId } = await rescore(first, BY_MODEL)
    expect(await ended(batchId)).toMatchObject({ samples: 3, groups: 2, scored: 3 })
    const { uid, score } = await results(batchId)
    const order = scored.map((one) => one.index)
    for (const [at, one] of singles.entries()) {
      expect(uid[order[at] as number]).toBe(one.uid)
      expect(score[order[at] as number]).toBe(hashScore(one))
    }
  })

  it('may be rescored itself', async () => {
    const samples = rollouts(24, 8, 'twice')
    const first = await submit(samples)
    const second = await rescore(first, BY_MODEL)
    const third = await rescore(second.batchId, BY_RULE)
    expect(await ended(third.batchId)).toMatchObject({ mean: 0.5, rescoredFrom: second.batchId })
    await ended(first)
    expect((await results(third.batchId)).score).toEqual((await results(first)).score)
    expect(await ended(second.batchId)).toMatchObject({ scored: 24, rescoredFrom: first })
  })

  it('is created once per idempotency key', async () => {
    const first = await submit(rollouts(16, 4, 'once'))
    const [a, b] = await Promise.all([
      rescore(first, BY_RULE, 'k-1'),
      rescore(first, BY_RULE, 'k-1'),
    ])
    expect(a.batchId).toBe(b.batchId)
    expect([a.duplicate, b.duplicate].sort()).toEqual([false, true])
    expect(await rescore(first, BY_RULE, 'k-1')).toMatchObject({
      batchId: a.batchId,
      accepted: 16,
      groups: 4,
      duplicate: true,
    })
    expectRefusal(await refused({ batchId: first, reward: BY_MODEL, idempotencyKey: 'k-1' }), {
      status: 409,
      reason: 'idempotency_conflict',
      message: a.batchId,
    })
    const { rescores } = await service.api.batches.view.query({ batchId: first })
    expect(rescores).toEqual([a.batchId])
  })

  it('is refused for an open, empty or unknown batch or an invalid reward, and stores nothing', async () => {
    const open = await submit([sample()], { open: true })
    const empty = await submit([], { open: true })
    await service.api.batches.close.mutate({ batchId: empty })
    const closed = await submit([sample()])
    const reward = BY_RULE
    const batches = () => service.sql<{ n: number }>('select count(*)::int as n from batch')
    const before = await batches()
    for (const [input, expected] of [
      [
        { batchId: open, reward },
        { status: 409, reason: 'batch_open', message: open },
      ],
      [
        { batchId: empty, reward },
        { status: 400, reason: 'empty_batch', message: empty },
      ],
      [
        { batchId: 'b999999', reward },
        { status: 404, reason: 'batch_not_found', message: 'b999999' },
      ],
      [{ batchId: closed }, { status: 400, reason: 'invalid_input', message: 'reward' }],
      [
        { batchId: closed, reward: { model: 'nobody' } },
        { status: 400, reason: 'unknown_model', message: 'simulated-rm' },
      ],
      [
        { batchId: closed, reward: { function: { name: 'gsm9k' } } },
        { status: 400, reason: 'invalid_input', message: 'gsm8k' },
      ],
      [
        { batchId: closed, reward: { manager: 'nayve' } },
        { status: 400, reason: 'unknown_manager', message: 'naive' },
      ],
    ] as const) {
      expectRefusal(await refused(input), expected)
    }
    expect(await batches()).toEqual(before)
    expect(await service.sql('select 1 from rescore_copy')).toEqual([])
    await service.api.batches.close.mutate({ batchId: open })
    expect(await ended((await rescore(open, reward)).batchId)).toMatchObject({ scored: 1 })
  })
})

describe('a large rescore', () => {
  itInFullRun(
    'delays neither the server nor a step that runs at the same time',
    { timeout: 120_000 },
    async () => {
      const texts = rollouts(4_096, 8, 'large').map((one) => ({
        ...one,
        response: `${padding(4_000)}${one.response}`,
      }))
      const first = await submit(texts)
      await ended(first)
      await service.raw('/healthz')
      let copying = true
      const copy = rescore(first, BY_RULE).finally(() => {
        copying = false
      })
      let steps = 0
      do {
        const batchId = await submit(rollouts(64, 8, `beside-${steps}`), { step: 8 })
        expect(await ended(batchId)).toMatchObject({ scored: 64 })
        steps++
      } while (copying)
      const { batchId } = await copy
      expect(await ended(batchId)).toMatchObject({ scored: 4_096, groupsCompleted: 512, mean: 0.5 })
    },
  )

  itInFullRun(
    'does not exist when the server dies midway, and is created by a retry',
    {
      timeout: 120_000,
    },
    async () => {
      const samples = rollouts(5_000, 8, 'killed')
      const first = await submit(samples)
      await ended(first)
      const [{ last }] = (await service.sql<{ last: number }>(
        'select max(id) as last from batch',
      )) as [{ last: number }]
      // A lock blocks the copy of groups, which comes last. The server is therefore killed after it has copied all
      // texts and samples.
      const client = new pg.Client({
        connectionString: runningEmbeddedUrl(service.dataDir) as string,
      })
      // The connection ends with the server.
      client.on('error', () => {})
      await client.connect()
      await client.query('begin')
      await client.query('lock table sample_group in share mode')
      const lost = rescore(first, BY_RULE, 'killed').catch((error: Error) => error)
      const copied = () =>
        service.sql<{ batch_id: number; samples: number; texts: number }>(
          `select batch_id, (select count(*)::int from sample s where s.batch_id = c.batch_id) as samples,
           (select count(*)::int from sample_text t where t.batch_id = c.batch_id) as texts from rescore_copy c`,
        )
      const [copy] = await waitFor('a copy that is almost done', async () => {
        const rows = await copied()
        return rows[0]?.samples === 5_000 && rows
      })
      expect(copy).toMatchObject({ texts: 5_000 })
      const id = copy?.batch_id as number
      expect(id).toBeGreaterThan(last)
      await service.kill9('server')
      await client.end().catch(() => {})
      expect(await lost).toBeInstanceOf(Error)
      await service.restart()
      expectRefusal(await service.raw(`/api/trpc/batches.get?input={"batchId":"b${id}"}`), {
        status: 404,
        reason: 'batch_not_found',
        message: `b${id}`,
      })
      await waitFor('the removal of its rows', async () => (await copied()).length === 0)
      const [left] = await service.sql<{ rows: number }>(
        `select (select count(*) from sample where batch_id = $1) + (select count(*) from sample_text where batch_id = $1)
         + (select count(*) from sample_group where batch_id = $1) as rows`,
        [id],
      )
      expect(Number(left?.rows)).toBe(0)
      const { batchId } = await rescore(first, BY_RULE, 'killed')
      expect(await ended(batchId)).toMatchObject({
        status: 'completed',
        scored: 5_000,
        groupsCompleted: 625,
        mean: 0.5,
        rescoredFrom: first,
      })
    },
  )
})

describe('a part of a batch', () => {
  it('is rescored by index, with or without whole groups, renumbered and with its origins', async () => {
    const samples = rollouts(40, 4, 'part')
    const first = await submit(samples, { groupSize: 4 })
    await ended(first)
    const some = (select: Rescore['select']) =>
      service.api.batches.rescore.mutate({ batchId: first, reward: BY_MODEL, select })
    const whole = await some({ indexes: [21, 2, 22] })
    expect(whole).toMatchObject({ accepted: 8, groups: 2, selected: 3, addedGroupMembers: 5 })
    const followed = followBatch(service, whole.batchId)
    await followed.done
    const delivered = await expectExactlyOnce(service, followed, 8, 2)
    const from = [0, 1, 2, 3, 20, 21, 22, 23]
    expect(delivered.map((s) => s.score)).toEqual(from.map((i) => hashScore(samples[i] as Sample)))
    const cut = await some({ indexes: [21, 2, 22], wholeGroups: false })
    expect(cut).toMatchObject({ accepted: 3, groups: 2, selected: 3, addedGroupMembers: 0 })
    expect(await ended(cut.batchId)).toMatchObject({ status: 'completed', scored: 3, groups: 2 })
    expect((await results(cut.batchId)).uid).toEqual(['part-0', 'part-5', 'part-5'])
    const texts = await sampleOf(cut.batchId, 1)
    expect(texts.response).toBe(samples[21]?.response)
    expect(
      await service.sql('select from_idx from rescore_part where batch_id = $1', [
        Number(cut.batchId.slice(1)),
      ]),
    ).toEqual([{ from_idx: [2, 21, 22] }])
    expect(await get(first)).toMatchObject({ samples: 40, rewardName: 'gsm8k' })
  })

  it('links its samples to their prompts', async () => {
    const first = await submit(rollouts(8, 4, 'linked'), { run: 'rescore-linked' })
    await ended(first)
    const { promptKey } = await waitFor('the prompts', async () => {
      const of = await sampleOf(first, 5)
      return of.promptKey !== null && of
    })
    const { batchId } = await service.api.batches.rescore.mutate({
      ...{ batchId: first, reward: BY_RULE, select: { indexes: [5] } },
    })
    await ended(batchId)
    expect(await sampleOf(batchId, 1)).toMatchObject({ promptKey })
  })

  it('needs no rule for data sources that are not selected', async () => {
    const samples = rollouts(8, 4, 'mixed').map((one, i) =>
      i < 4 ? one : { ...one, dataSource: 'without-a-rule' },
    )
    const first = await submit(samples, { reward: BY_MODEL })
    await ended(first)
    const some = (indexes: number[], wholeGroups?: boolean) => ({
      ...{ batchId: first, reward: {} },
      select: { indexes, ...(wholeGroups === undefined ? {} : { wholeGroups }) },
    })
    const made = await service.api.batches.rescore.mutate(some([0]))
    expect(await ended(made.batchId)).toMatchObject({ rewardName: 'gsm8k', scored: 4, mean: 0.5 })
    expectRefusal(await refused(some([0, 4], false)), {
      ...{ status: 400, reason: 'unknown_data_source', message: 'without-a-rule' },
    })
  })

  it.each([
    ['whole', undefined],
    ...inFullRun<[string, { indexes: number[]; wholeGroups: boolean }]>([
      'by index',
      { indexes: [0, 1, 2, 3, 5, 6], wholeGroups: false },
    ]),
  ])('is rescored %s with texts that take several statements to copy', async (_, select) => {
    const first = await submit(rollouts(8, 4, 'long'))
    await ended(first)
    const idOf = (batchId: string) => Number(batchId.slice(1))
    // One statement copies at most 4 MiB of texts, so four responses of 3 MiB take several statements.
    await service.sql(
      'update sample_text set response = repeat(idx::text, 3 << 20) where batch_id = $1 and idx < 4',
      [idOf(first)],
    )
    const made = await service.api.batches.rescore.mutate({
      ...{ batchId: first, reward: BY_RULE },
      ...(select === undefined ? {} : { select }),
    })
    const digests = (batchId: string) =>
      service.sql<{ digest: string }>(
        'select md5(response) as digest from sample_text where batch_id = $1 order by idx',
        [idOf(batchId)],
      )
    const before = await digests(first)
    expect(await digests(made.batchId)).toEqual(select?.indexes.map((i) => before[i]) ?? before)
    await ended(made.batchId)
  })

  it('is rescored by filter or group; a repeated key returns the same batch or a conflict', async () => {
    const first = await submit(rollouts(24, 8, 'chosen'))
    await ended(first)
    const input = {
      ...{ batchId: first, reward: BY_RULE, idempotencyKey: 'some of it' },
      select: { filter: { scoreMin: 1, text: 'ROLLOUT CHOSEN 1' }, wholeGroups: false },
    }
    const made = await service.api.batches.rescore.mutate(input)
    expect(made).toMatchObject({ accepted: 5, groups: 2, duplicate: false })
    expect(await ended(made.batchId)).toMatchObject({ scored: 5, mean: 1 })
    expect(await service.api.batches.rescore.mutate(input)).toMatchObject({
      batchId: made.batchId,
      duplicate: true,
    })
    expectRefusal(await refused({ ...input, select: { uids: ['chosen-1'] } }), {
      ...{ status: 409, reason: 'idempotency_conflict', message: 'some of it' },
    })
    const group = await service.api.batches.rescore.mutate({
      batchId: first,
      reward: BY_RULE,
      select: { uids: ['chosen-1'] },
    })
    expect(group).toMatchObject({ accepted: 8, groups: 1, addedGroupMembers: 0 })
    await ended(group.batchId)
  })

  it.each([
    ['an unknown index', { indexes: [3, 99] }, 404, 'There is no sample b'],
    ['an unknown group', { uids: ['unknown'] }, 404, 'has 0 of the 1 groups'],
    ['a filter without matches', { filter: { scoreMin: 99 } }, 404, 'No sample of b'],
    ['an empty selection', {}, 400, 'one of indexes, uids and filter'],
  ])('with %s is refused, and nothing is stored', async (_, select, status, message) => {
    const first = await submit(rollouts(4, 4, 'refused'))
    await ended(first)
    expectRefusal(await refused({ batchId: first, reward: BY_RULE, select }), {
      ...{ status, reason: status === 404 ? 'sample_not_found' : 'invalid_input', message },
    })
    expect((await service.api.batches.view.query({ batchId: first })).rescores).toEqual([])
  })
})
