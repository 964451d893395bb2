import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { expectRefusal } from '../../testkit/service/refusals.ts'
import { rollouts, shuffled } from '../../testkit/service/rollouts.ts'
import { Service } from '../../testkit/service/service.ts'
import { stopCleanly } from '../../testkit/service/service-with-model.ts'
import { waitFor } from '../../testkit/service/wait-for.ts'
import type { SampleListInput, SamplePageDto } from '../contract/pages.ts'
import { type SampleFilter, writeSampleFilter } from '../contract/sample-filter.ts'

let service: Service
const batches: string[] = []

function trajectory(answer: string, isFailed: boolean) {
  const name = 'multiply'
  const call = { id: 'c1', type: 'function', function: { name, arguments: '{"a": 6, "b": 7}' } }
  return [
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c1', name, content: '42', is_error: isFailed },
    { role: 'assistant', content: answer },
  ]
}

beforeAll(async () => {
  service = await Service.start({ env: { REWARDOPS_WORKERS: '1' } })
  for (const [i, run] of ['one', 'two', 'one'].entries()) {
    const samples = rollouts(160, 8, `r${i}`).map((one, at) => ({
      ...one,
      responseLength: (at * 7) % 90,
      ...(at % 3 === 0 ? { dataSource: 'lighteval/MATH', groundTruth: '72' } : {}),
      ...(at % 5 === 0 ? { response: `Odd \u0000 ${at}\n#### 72` } : {}),
      ...(at < 8 ? { response: `Rollout r${i} ${at}\n#### 72`, dataSource: 'openai/gsm8k' } : {}),
      ...(i === 1 && at % 20 === 11 ? { response: trajectory(one.response, at % 40 === 11) } : {}),
    }))
    const { batchId } = await service.api.batches.submit.mutate({
      run,
      step: i,
      samples,
      split: i === 1 ? 'val' : 'train',
    })
    await service.api.batches.wait.query({ batchId, waitMs: 60_000 })
    batches.push(batchId)
  }
  await service.sql(
    `update sample set reward_extra = json_build_object('acc', idx % 2 = 0, 'len', idx * 1.5, 'pred', 'p' || idx % 4) where idx % 4 < 3`,
  )
  await service.sql(
    `update sample set status = 3, reason = 'timeout', score = null, attempts = 3 where idx % 20 = 7`,
  )
  await service.sql('update batch set scored = samples - 8, failed = 8, rolled_up = false')
  await waitFor('roll-ups of the changes', async () => {
    const [row] = await service.sql<{ done: boolean }>(
      'select bool_and(rolled_up) as done from batch',
    )
    return row?.done
  })
})

afterAll(() => stopCleanly(service))

const list = (filter: SampleFilter, more: Partial<SampleListInput> = {}) =>
  service.api.samples.list.query({ ...filter, ...more })

async function listed(
  filter: SampleFilter,
  sort: SampleListInput['sort'] = 'newest',
  limit = 33,
): Promise<string[]> {
  const ids: string[] = []
  for (let cursor: string | null = null; ; ) {
    const page: SamplePageDto = await list(filter, { sort, limit, cursor })
    ids.push(...page.items.map(({ id }) => id))
    cursor = page.nextCursor
    if (cursor === null) return ids
  }
}

async function exported(filter: SampleFilter, more = ''): Promise<Record<string, unknown>[]> {
  const { text, status } = await service.raw(
    `/api/export/samples?${writeSampleFilter(filter)}${more}`,
  )
  expect(status).toBe(200)
  return text
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

const idOf = (row: Record<string, unknown>) => `${row.batchId}-${row.index}`
const inOrder = (ids: string[]) =>
  ids.toSorted((a, b) => {
    const [x, y] = [a, b].map((id) => id.slice(1).split('-').map(Number))
    return x![0]! - y![0]! || x![1]! - y![1]!
  })

const CONDITIONS: SampleFilter[] = [
  { run: 'one' },
  { step: 0, stepTo: 1 },
  { split: 'val' },
  { dataSource: 'lighteval/MATH' },
  { status: 'scored' },
  { status: 'failed' },
  { reason: 'timeout' },
  { scoreMin: 0.5 },
  { lengthMin: 20, lengthMax: 60 },
  { attemptsMin: 2 },
  { groupSignal: 'varied' },
  { groupSignal: 'no_signal' },
  { failedToolCall: true },
  { text: 'ROLLOUT R0 1' },
  { text: 'odd \u0000 1' },
  { text: '####' },
  { extra: [{ key: 'acc', is: 'boolean', value: true }] },
  { extra: [{ key: 'len', is: 'number', min: 30, max: 150 }] },
  { extra: [{ key: 'pred', is: 'text', value: 'p2' }] },
  { label: 'hack' },
  { annotated: true },
]

describe('filtered samples', () => {
  beforeAll(async () => {
    const samples = batches.flatMap((id) => [0, 3, 7, 12, 40].map((i) => `${id}-${i}`))
    expect(await service.api.annotations.add.mutate({ samples, label: 'hack' })).toMatchObject({
      added: 15,
      alreadyAnnotated: 0,
      missing: 0,
      hasMore: false,
    })
    await service.api.annotations.add.mutate({
      filter: { reason: 'timeout', run: 'two' },
      label: 'too slow',
      note: 'the judge hung',
    })
  })

  it.each(
    Array.from({ length: 14 }, (_, seed) => {
      const filter = Object.assign(
        {},
        ...shuffled(CONDITIONS, seed).slice(0, 1 + (seed % 3)),
      ) as SampleFilter
      return [JSON.stringify(filter), filter] as const
    }),
  )('are the same in lists, counts and exports: %s', async (_, filter) => {
    const ids = await listed(filter)
    expect(new Set(ids).size).toBe(ids.length)
    const rows = await exported(filter, '&columns=batchId,index,score')
    expect(rows.map(idOf)).toEqual(inOrder(ids))
    expect(await service.api.samples.count.query(filter)).toMatchObject({
      samples: ids.length,
      exact: true,
    })
  })

  it('are those of groups with a signal, or without one', async () => {
    const signals = new Map<string, string>()
    for (const batchId of batches) {
      const { groups } = await service.api.batches.next.query({ batchId, samples: 1_000 })
      for (const group of groups) {
        for (const { index } of group.samples) signals.set(`${batchId}-${index}`, group.signal)
      }
    }
    expect(new Set(signals.values()).size).toBeGreaterThan(1)
    const without = [...signals].filter(([, signal]) => signal !== 'varied').map(([id]) => id)
    expect(inOrder(await listed({ groupSignal: 'no_signal' }))).toEqual(inOrder(without))
    const varied = [...signals].filter(([, signal]) => signal === 'varied').map(([id]) => id)
    expect(inOrder(await listed({ groupSignal: 'varied' }))).toEqual(inOrder(varied))
    for (const batch of batches) {
      const { groupSignals } = await service.api.batches.view.query({ batchId: batch })
      const listedGroups = new Set(
        (await list({ batch, groupSignal: 'no_signal' }, { limit: 200 })).items.map(
          ({ uid }) => uid,
        ),
      )
      const { varied: _, empty: __, ...silent } = groupSignals
      expect(listedGroups.size).toBe(Object.values(silent).reduce((a, b) => a + b, 0))
    }
  })

  it('are those with a failed tool call', async () => {
    const ids = await listed({ failedToolCall: true })
    expect(inOrder(ids)).toEqual([11, 51, 91, 131].map((at) => `${batches[1]}-${at}`))
    expect((await listed({ failedToolCall: false })).length).toBe(480 - ids.length)
  })

  it('are the same in every sort order', async () => {
    const filter: SampleFilter = { status: 'scored', text: 'rollout r2' }
    const ids = await listed(filter)
    expect(ids.length).toBeGreaterThan(50)
    for (const sort of ['worst', 'best'] as const)
      expect(inOrder(await listed(filter, sort))).toEqual(inOrder(ids))
  })

  it('are listed once each if pages end at negative and very small scores', async () => {
    const scores = [-1, -0.5, 1e-7]
    const samples = rollouts(3, 3, 'signed').map((one, at) => ({ ...one, score: scores[at] }))
    const { batchId } = await service.api.batches.submit.mutate({ run: 'signed', step: 0, samples })
    const ids = [0, 1, 2].map((at) => `${batchId}-${at}`)
    expect(await listed({ batch: batchId }, 'worst', 1)).toEqual(ids)
    expect(await listed({ batch: batchId }, 'best', 1)).toEqual(ids.toReversed())
  })

  it('are as many in the list as in the facets of a run', async () => {
    const facets = await service.api.samples.facets.query({ run: 'two' })
    for (const { name, samples } of facets.dataSources)
      expect((await listed({ run: 'two', dataSource: name })).length).toBe(samples)
  })

  it('have all extra-info keys that are offered, and no others', async () => {
    const { keys } = await service.api.samples.extraKeys.query({ run: 'one' })
    const { items } = await list({ run: 'one' }, { limit: 200 })
    const seen = new Set(items.flatMap((row) => Object.keys(row.rewardExtraInfo)))
    expect(new Set(keys.map(({ key }) => key))).toEqual(seen)
    expect(keys.find(({ key }) => key === 'len')).toMatchObject({ min: 0, max: 237 })
  })

  it('have first lines for the rows of the table, without whole texts', async () => {
    const { items } = await list({ run: 'one' }, { limit: 99 })
    const ids = items.map(({ id }) => id)
    const lines = await service.api.samples.firstLines.query({ ids: [...ids, 'b999999-0'] })
    expect(lines.map(({ id }) => id).sort()).toEqual([...ids].sort())
    for (const { id, prompt, response } of lines.slice(0, 10)) {
      const sample = await service.api.samples.get.query({ id })
      const asked =
        typeof sample.prompt === 'string'
          ? sample.prompt
          : sample.prompt.find(({ role }) => role === 'user')?.content
      expect(String(asked).trimStart().startsWith(prompt)).toBe(true)
      expect(sample.response.trimStart().startsWith(response)).toBe(true)
      expect(response).not.toContain('\n')
      expect(response.length).toBeLessThanOrEqual(200)
    }
    await expect(
      service.api.samples.firstLines.query({ ids: Array(101).fill('b1-0') }),
    ).rejects.toThrow(/at most 100/)
  })

  it('are exported in chosen columns, as CSV and JSON Lines, with annotations', async () => {
    const filter: SampleFilter = { run: 'two', reason: 'timeout' }
    const columns = 'batchId,index,rewardExtraInfo.pred,annotations,groundTruth'
    const rows = await exported(filter, `&columns=${columns}`)
    expect(rows).toHaveLength(8)
    expect(Object.keys(rows[0]!)).toEqual(columns.split(','))
    expect(rows[0]).toEqual({
      batchId: batches[1],
      index: 7,
      'rewardExtraInfo.pred': null,
      annotations: [
        expect.objectContaining({ label: 'hack', note: null }),
        expect.objectContaining({ label: 'too slow', note: 'the judge hung', author: 'local' }),
      ],
      groundTruth: '72',
    })
    const csv = await service.raw(
      `/api/export/samples?${writeSampleFilter(filter)}&columns=${columns}&format=csv`,
    )
    expect(csv.text.split('\r\n').slice(0, 2)).toEqual([
      columns,
      expect.stringMatching(
        new RegExp(`^${batches[1]},7,,"\\[\\{""label"":""hack"",""note"":null,.*\\]",72$`),
      ),
    ])
    expect(csv.headers['x-rewardops-rows']).toBeUndefined()
  })

  it('are exported from a given sample on', async () => {
    const filter: SampleFilter = { text: 'rollout', run: 'one' }
    const all = (await exported(filter)).map(idOf)
    const middle = all[100] as string
    expect((await exported(filter, `&after=${middle}`)).map(idOf)).toEqual(all.slice(101))
  })

  it.each([
    ['extra=acc', 'extra[0]: must be KEY:present'],
    ['scoreMin=abc', 'scoreMin: must be a number'],
    ['substituted=yes', 'substituted: '],
    ['run=one&columns=nonsense', 'there is no column "nonsense"'],
    ['run=one&columns=score&format=verl', 'the verl format has fixed columns'],
  ])('are refused for an invalid filter or column: %s', async (query, message) => {
    expectRefusal(await service.raw(`/api/export/samples?${query}`), {
      ...{ status: 400, reason: 'invalid_input', message },
    })
  })
})

describe('annotations', () => {
  it('are added, several per sample, changed and deleted, and shown with samples', async () => {
    const id = `${batches[0]}-5`
    const add = (label: string, note?: string) =>
      service.api.annotations.add.mutate({ samples: [id], label, note })
    const first = await add('good', 'reads well')
    expect(first).toMatchObject({ added: 1, ids: [expect.stringMatching(/^a\d+$/)] })
    await add('check')
    expect(await add('check')).toMatchObject({ added: 0, alreadyAnnotated: 1 })
    const of = () => service.api.annotations.of.query({ sample: id })
    expect((await of()).map(({ label, note, author }) => [label, note, author])).toEqual([
      ['good', 'reads well', 'local'],
      ['check', null, 'local'],
    ])
    await service.api.annotations.update.mutate({ id: first.ids[0]!, note: null, label: 'fine' })
    const detail = await service.api.samples.get.query({ id })
    expect(detail.annotations[0]).toMatchObject({ label: 'fine', note: null })
    expect(detail.labels).toEqual(['check', 'fine'])
    const { items } = await list({ batch: batches[0] as string, label: 'check' })
    expect(items).toMatchObject([{ id, labels: ['check', 'fine'] }])
    await service.api.annotations.remove.mutate({ id: first.ids[0]! })
    expect((await of()).map(({ label }) => label)).toEqual(['check'])
    expectRefusal(await service.post('annotations.remove', JSON.stringify({ id: first.ids[0] })), {
      ...{ status: 404, reason: 'annotation_not_found', message: 'There is no annotation' },
    })
    const labels = await service.api.annotations.labels.query({ batch: batches[0]! })
    expect(labels.map(({ label }) => label)).toContain('check')
  })

  it('make open pages refetch when they are added, changed and deleted', async () => {
    const gone = new AbortController()
    const { body } = await request(`${service.url}/api/trpc/live.events`, { signal: gone.signal })
    let streamed = ''
    body.setEncoding('utf8').on('data', (piece: string) => {
      streamed += piece
    })
    body.on('error', () => {})
    const changed = async (change: string) => {
      await waitFor(`${change} on the stream`, () => streamed.includes(`batch:${batches[2]}"`))
      streamed = ''
    }
    const { annotations } = service.api
    const { ids } = await annotations.add.mutate({ samples: [`${batches[2]}-5`], label: 'live' })
    await changed('addition')
    await annotations.update.mutate({ id: ids[0]!, label: 'changed' })
    await changed('change')
    await annotations.remove.mutate({ id: ids[0]! })
    await changed('removal')
    gone.abort()
  })

  it('are listed newest last, and the oldest beyond 200 are left out', async () => {
    const id = `${batches[0]}-6`
    await service.sql(`insert into sample_annotation (batch_id, idx, label, author)
      select ${id.slice(1, id.indexOf('-'))}, 6, 'many-' || n, 'local' from generate_series(1, 201) n order by n`)
    const { annotations } = await service.api.samples.get.query({ id })
    expect(annotations.map(({ label }) => label)).toEqual(
      Array.from({ length: 200 }, (_, i) => `many-${i + 2}`),
    )
    await service.sql(`delete from sample_annotation where label like 'many-%'`)
  })

  it('are returned with their ids for undo, if there are at most 1,000', async () => {
    const samples = rollouts(1_001, 8, 'many').map((one) => ({ ...one, score: 1 }))
    const { batchId } = await service.api.batches.submit.mutate({ run: 'many', step: 0, samples })
    const add = (label: string, to: object) => service.api.annotations.add.mutate({ label, ...to })
    const some = await add('few', {
      samples: Array.from({ length: 1_000 }, (_, i) => `${batchId}-${i}`),
    })
    expect(some.ids).toHaveLength(1_000)
    expect(await add('all', { filter: { batch: batchId } })).toMatchObject({
      added: 1_001,
      ids: [],
    })
  })

  it('report unknown and already annotated samples, and are refused with both or neither of samples and filter', async () => {
    const samples = [0, 1, 999_999].map((index) => `${batches[0]}-${index}`)
    const add = () => service.api.annotations.add.mutate({ samples, label: 'x' })
    expect(await add()).toMatchObject({ added: 2, alreadyAnnotated: 0, missing: 1 })
    expect(await add()).toMatchObject({ added: 0, alreadyAnnotated: 2, missing: 1 })
    for (const input of [{ label: 'x' }, { label: 'x', samples: ['b1-1'], filter: {} }]) {
      expectRefusal(await service.post('annotations.add', JSON.stringify(input)), {
        ...{ status: 400, reason: 'invalid_input', message: 'either samples or filter' },
      })
    }
  })
})

describe('saved views', () => {
  it('are saved, renamed, changed and deleted; names are unique', async () => {
    const save = (name: string, state: string) => ({ page: 'samples', name, state }) as const
    const view = await service.api.views.save.mutate(save('Slow', 'sort=slowest'))
    expect(view).toMatchObject({ name: 'Slow', state: 'sort=slowest', version: 1, author: 'local' })
    expectRefusal(await service.post('views.save', JSON.stringify(save('Slow', ''))), {
      ...{ status: 409, reason: 'view_exists', message: 'A view named "Slow" already exists' },
    })
    const other = await service.api.views.save.mutate(save('Worst', 'sort=worst'))
    expectRefusal(
      await service.post('views.update', JSON.stringify({ id: other.id, name: 'Slow' })),
      { status: 409, reason: 'view_exists', message: 'Slow' },
    )
    await service.api.views.update.mutate({ id: other.id, name: 'Bad', state: 'scoreMax=0' })
    expect(
      (await service.api.views.list.query({ page: 'samples' })).map(
        ({ name, state }) => `${name}: ${state}`,
      ),
    ).toEqual(['Bad: scoreMax=0', 'Slow: sort=slowest'])
    await service.api.views.remove.mutate({ id: other.id })
    expectRefusal(
      await service.raw(`/api/trpc/views.get?input=${JSON.stringify({ id: other.id })}`),
      { status: 404, reason: 'view_not_found', message: `There is no saved view ${other.id}` },
    )
  })
})
