import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rollUpGroups } from '../background/group-roll-ups.ts'
import {
  PromptCountsInput,
  PromptHeatInput,
  PromptHistoryInput,
  PromptListInput,
  PromptSampleInput,
  PromptStepsInput,
} from '../contract/prompts.ts'
import { MAX_STEPS } from '../contract/runs.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { removeVisits } from '../store/sql/prompts.ts'
import {
  beginJob,
  cancelJob,
  deletePiece,
  endJob,
  markPiece,
  unmark,
} from '../store/sql/retention.ts'
import { encodeTexts, promptKeyOf } from '../store/stored-texts.ts'
import { ensureTextPartition } from '../store/text-partitions.ts'
import { PromptsView } from './prompts-view.ts'

const database = testDatabaseForFile()
const bucket = '2026-01-05'
let db: Database

beforeAll(async () => {
  db = new Database(database.url, createLogger('error', 'test'), {
    max: 4,
    name: 'test',
    keyed: true,
    statementTimeoutMs: 10_000,
  })
  await ensureTextPartition(db, bucket)
})
afterAll(() => db.close())

/** A group: its prompt and the scores of its samples. The score of a failed sample is null. */
interface Made {
  prompt: string | { role: string; content: string }[]
  id?: string
  source?: string
  scores: (number | null)[]
}

interface Batch {
  id: number
  run_id: number
  step: number
  split: string
  reward: never
  is_rescore: boolean
}

async function makeRun(name: string): Promise<number> {
  const [run] = await db.adhoc<{ id: number }>('insert into run (name) values ($1) returning id', [
    name,
  ])
  return run!.id
}

async function makeBatch(
  runId: number,
  step: number,
  groups: readonly Made[],
  more: { split?: string; reward?: object; rescoredFrom?: number } = {},
): Promise<Batch> {
  const { split = 'train', reward = { kind: 'rule' }, rescoredFrom = null } = more
  const samples = groups.flatMap(({ scores }, group) => scores.map((score) => ({ group, score })))
  const [row] = await db.adhoc<{ id: number }>(
    `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, groups, text_bucket,
       completed_at, rescored_from) values ($1, $2, $3, 'completed', true, $4, 'test', $5, $6, $7, now(), $8) returning id`,
    [runId, step, split, reward, samples.length, groups.length, bucket, rescoredFrom],
  )
  const { id } = row!
  for (const [idx, { group, score }] of samples.entries()) {
    const made = groups[group] as Made
    const { prompt, encoding } = encodeTexts({ prompt: made.prompt, response: '' })
    await db.adhoc(
      `insert into sample (batch_id, idx, group_no, data_source, prompt_id, status, score, reason)
       values ($1, $2, $3, $4, $5, $6, $7, $8)`,
      [
        ...[id, idx, group, made.source ?? 'gsm8k', made.id ?? null],
        ...(score === null ? [3, null, 'timeout'] : [2, score, null]),
      ],
    )
    await db.adhoc(
      `insert into sample_text (bucket, batch_id, idx, prompt, response, encoding) values ($1, $2, $3, $4, 'r', $5)`,
      [bucket, id, idx, prompt, encoding],
    )
  }
  for (const [no, { prompt, id: promptId, source, scores }] of groups.entries()) {
    await db.adhoc(
      `insert into sample_group (batch_id, no, uid, received, ended, seq, completed_at, prompt_key)
       values ($1, $2, $3, $4, $4, $5, now(), $6)`,
      [
        ...[id, no, `u${no}`, scores.length, no + 1],
        promptKeyOf(
          { dataSource: source ?? 'gsm8k', promptId },
          encodeTexts({ prompt, response: '' }),
        ),
      ],
    )
  }
  const batch: Batch = {
    ...{ id, run_id: runId, step, split, reward: reward as never },
    is_rescore: rescoredFrom !== null,
  }
  await rollUpGroups(db, batch)
  return batch
}

const view = () => new PromptsView(db)
const list = (run: string, more: object = {}) =>
  view().list(PromptListInput.parse({ run, ...more }))

describe('prompts of a run', () => {
  it('are looked up by key when a batch ends, however many prompts the run has', async () => {
    const runId = await makeRun('many')
    const groupsOf = (batch: number, size: number) =>
      Array.from({ length: size }, (_, at) => ({ prompt: `${batch}/${at}`, scores: [at % 2] }))
    // Postgres caches a plan after a few executions. These executions use a small table, so the cached plan is one for
    // a small table.
    for (let batch = 1; batch <= 7; batch++) await makeBatch(runId, batch, groupsOf(batch, 2))
    await db.adhoc(
      `insert into prompt (run_id, split, key, history, data_source, preview, visits)
       select $1, 'train', decode(md5(i::text), 'hex'), '', 'gsm8k', '', 1 from generate_series(1, 5000) i`,
      [runId],
    )
    const counted = async () => {
      const [row] = await db.adhoc<{ written: number; read: number }>(
        `select (n_tup_ins + n_tup_upd)::int as written,
           (select sum(idx_tup_read)::int from pg_stat_user_indexes where relname = 'prompt') as read
         from pg_stat_user_tables where relname = 'prompt'`,
      )
      return row!
    }
    await expect
      .poll(async () => (await counted()).written, { timeout: 20_000 })
      .toBeGreaterThan(5_000)
    const before = await counted()
    await makeBatch(runId, 8, groupsOf(8, 20))
    await expect
      .poll(async () => (await counted()).written - before.written, { timeout: 20_000 })
      .toBeGreaterThanOrEqual(20)
    expect((await counted()).read - before.read).toBeLessThan(1_000)
  })

  it('are recognized over steps by their text, or by the id that the trainer sends', async () => {
    const runId = await makeRun('by-text')
    await makeBatch(runId, 1, [
      { prompt: 'What is 6 * 7?', scores: [1, 0, 0, 1] },
      { prompt: 'What is 6 * 7?', source: 'math', scores: [0, 0] },
      { prompt: 'a', id: 'q-1', scores: [1, 1] },
      { prompt: '', scores: [1, 0] },
    ])
    await makeBatch(runId, 2, [
      { prompt: 'What is 6 * 7?', scores: [1, 1, 1, null] },
      { prompt: 'the same question in other words', id: 'q-1', scores: [1, 0] },
      {
        prompt: [
          { role: 'user', content: 'Hello.' },
          { role: 'assistant', content: 'Hello!' },
          { role: 'user', content: 'Why?' },
        ],
        scores: [0.5],
      },
    ])
    const { items, nextCursor } = await list('by-text', { orderBy: 'rate' })
    expect(nextCursor).toBeNull()
    expect(
      items.map(({ preview, promptId, dataSource, visits, scored, passRate, lastStep }) => [
        ...[preview, promptId, dataSource, visits, scored, passRate, lastStep],
      ]),
    ).toEqual([
      ...[expect.anything(), expect.anything()],
      ['What is 6 * 7?', null, 'gsm8k', 2, 7, 5 / 7, 2],
      ['a', 'q-1', 'gsm8k', 2, 4, 0.75, 2],
    ])
    expect(items.slice(0, 2).map(({ preview, dataSource }) => [preview, dataSource])).toEqual(
      expect.arrayContaining([
        ['What is 6 * 7?', 'math'],
        ['Why?', 'gsm8k'],
      ]),
    )
    const counts = await view().counts(PromptCountsInput.parse({ run: 'by-text' }))
    expect(counts).toMatchObject({
      ...{ total: 4, groupsWithoutPrompt: 1, byClass: { unsolved: 2, mixed: 2 } },
      dataSources: [
        { name: 'gsm8k', prompts: 3 },
        { name: 'math', prompts: 1 },
      ],
    })
    expect(
      await view().counts(PromptCountsInput.parse({ run: 'by-text', dataSource: 'math' })),
    ).toMatchObject({ total: 1, dataSources: counts.dataSources })
    const found = await list('by-text', { search: '6 * 7', dataSource: 'math' })
    expect(found.items).toHaveLength(1)
    expect((await list('by-text', { search: 'Q-1' })).items).toHaveLength(1)
    expect((await list('by-text', { search: '%' })).items).toHaveLength(0)
  })

  it('count each group once, however often it is rolled up, and leave rescores out', async () => {
    const runId = await makeRun('once')
    const made = Array.from({ length: 40 }, (_, i) => ({ prompt: `p${i}`, scores: [1, 0, i % 2] }))
    const first = await makeBatch(runId, 1, made)
    const second = await makeBatch(runId, 2, made)
    const without = { prompt: '', scores: [1] }
    await makeBatch(runId, 2, [...made, without], { rescoredFrom: second.id })
    await makeBatch(runId, 2, made, { split: 'val' })
    await Promise.all([first, second, second].map((batch) => rollUpGroups(db, batch)))
    const { items } = await list('once', { limit: 200 })
    expect(items).toHaveLength(40)
    expect(new Set(items.map(({ visits, scored }) => `${visits} ${scored}`))).toEqual(
      new Set(['2 6']),
    )
    const counts = await view().counts(PromptCountsInput.parse({ run: 'once' }))
    expect(counts).toMatchObject({ total: 40, groupsWithoutPrompt: 0 })
    const val = await list('once', { split: 'val', limit: 200 })
    expect(new Set(val.items.map(({ visits }) => visits))).toEqual(new Set([1]))
  })

  it('are listed page by page in every order, each once', async () => {
    const runId = await makeRun('pages')
    for (const step of [1, 2, 3, 4]) {
      await makeBatch(
        runId,
        step,
        Array.from({ length: 30 }, (_, i) => ({
          prompt: `p${i}`,
          scores: [i % 3, (i * step) % 2],
        })).slice(0, step === 4 ? 7 : 30),
      )
    }
    for (const orderBy of ['rate', 'change', 'visits', 'lastStep', 'varied']) {
      for (const descending of [false, true]) {
        const keys: string[] = []
        let cursor: string | null = null
        do {
          const page = await list('pages', { orderBy, descending, cursor, limit: 7 })
          keys.push(...page.items.map(({ key }) => key))
          cursor = page.nextCursor
        } while (cursor !== null)
        expect(new Set(keys).size).toBe(30)
        expect(keys).toHaveLength(30)
      }
    }
    await expect(list('pages', { cursor: '[1]' })).rejects.toMatchObject({
      reason: 'invalid_input',
    })
  })

  it('show their visits, also after retention removed the groups', async () => {
    const runId = await makeRun('visits')
    const first = await makeBatch(runId, 3, [{ prompt: 'p', scores: [1, 0] }])
    const second = await makeBatch(runId, 5, [{ prompt: 'p', scores: [1, 1] }])
    const key = (await list('visits')).items[0]!.key
    const history = () => view().history(PromptHistoryInput.parse({ run: 'visits', key }))
    expect((await history()).history).toEqual([
      {
        step: 3,
        batchId: `b${first.id}`,
        uid: 'u0',
        scored: 2,
        passed: 1,
        mean: 0.5,
        std: Math.SQRT1_2,
      },
      { step: 5, batchId: `b${second.id}`, uid: 'u0', scored: 2, passed: 2, mean: 1, std: 0 },
    ])
    await db.adhoc('update batch set samples_removed_at = now() where id = $1', [second.id])
    expect((await history()).history.map(({ uid }) => uid)).toEqual(['u0', null])
    await db.adhoc('delete from sample_group where batch_id = $1', [first.id])
    expect((await history()).history[0]).toMatchObject({ step: 3, uid: null, passed: 1 })
    await db.transaction((client) => removeVisits(client, second.id, [key]))
    expect((await history()).history.map(({ step }) => step)).toEqual([3])
    await db.transaction((client) => removeVisits(client, first.id, [key]))
    await expect(history()).rejects.toMatchObject({ reason: 'prompt_not_found' })
  })

  it('are not rewritten for each batch of a deleted run, and keep the visits of remaining batches', async () => {
    const runId = await makeRun('deleted')
    const visit = [{ prompt: 'p', scores: [1, 0] }]
    const batches = []
    for (const step of [1, 2, 3]) batches.push(await makeBatch(runId, step, visit))
    const lastId = batches[2]!.id
    const steps = async () =>
      (await list('deleted')).items.map(({ recent }) => recent.map(({ step }) => step))
    const rows = async () => {
      const [row] = await db.adhoc<{ written: string }>(
        `select string_agg(xmin::text, ',') as written from prompt where run_id = $1`,
        [runId],
      )
      return row!.written
    }
    const written = await rows()
    const begin = async () => {
      const job = await beginJob(db, {
        ...{ kind: 'run', run: 'deleted', last_batch_id: lastId, requested_by: 'test' },
        ...{ policy: null, progress: {} },
      })
      await db.transaction((client) => markPiece(client, job!))
      return job!
    }
    const left = async () => {
      const found = await db.adhoc<{ id: number }>('select id from batch where run_id = $1', [
        runId,
      ])
      return found.length
    }
    const deleteUntil = async (batches: number) => {
      while ((await left()) > batches) await db.transaction(deletePiece)
    }
    const first = await begin()
    await deleteUntil(2)
    expect(await rows()).toBe(written)
    await db.transaction(async (client) => {
      await cancelJob(client, first.id)
      await unmark(client, first.id)
    })
    expect(await steps()).toEqual([[2, 3]])

    const second = await begin()
    await deleteUntil(1)
    await makeBatch(runId, 4, visit)
    await deleteUntil(1)
    await db.transaction((client) => endJob(client, second))
    expect(await steps()).toEqual([[4]])
  })

  it('of reward models have means and no passes', async () => {
    const runId = await makeRun('models')
    const reward = { kind: 'model', model: 'rm' }
    await makeBatch(runId, 1, [{ prompt: 'p', scores: [-1.5, 2.5] }], { reward })
    const { items } = await list('models')
    expect(items[0]).toMatchObject({ passRate: null, mean: 0.5, recent: [{ step: 1, rate: 0.5 }] })
    const { steps } = await view().steps(PromptStepsInput.parse({ run: 'models' }))
    expect(steps[0]).toMatchObject({
      ...{ groups: null, passAt: null },
      bestOf: [
        { k: 1, groups: 1, value: 0.5 },
        { k: 2, groups: 1, value: 2.5 },
      ],
    })
    await expect(
      view().sample(PromptSampleInput.parse({ run: 'models', strategy: 'band', n: 1 })),
    ).rejects.toMatchObject({ reason: 'no_pass_rates' })
  })

  it('give pass@k, the distribution of pass rates and a heat map over steps', async () => {
    const runId = await makeRun('steps')
    for (const step of [1, 2]) {
      await makeBatch(runId, step, [
        { prompt: 'easy', scores: [1, 1, 1, 1] },
        { prompt: 'medium', scores: [1, 0, 0, step === 2 ? 1 : 0] },
        { prompt: 'hard', scores: [0, 0, 0, 0] },
        { prompt: 'failed', scores: [null, null] },
      ])
    }
    const { steps } = await view().steps(PromptStepsInput.parse({ run: 'steps' }))
    expect(steps.map(({ step, groups }) => ({ step, ...groups }))).toEqual([
      { step: 1, none: 1, some: 1, most: 0, all: 1 },
      { step: 2, none: 1, some: 0, most: 1, all: 1 },
    ])
    const range = PromptStepsInput.parse({ run: 'steps', from: 2, until: 2 })
    expect((await view().steps(range)).steps).toEqual(steps.slice(1))
    expect(steps[1]?.passAt?.map(({ k, value }) => [k, Math.round(value * 1e9) / 1e9])).toEqual([
      [1, 0.5],
      [2, Math.round((1e9 * (1 + 5 / 6)) / 3) / 1e9],
      [4, Math.round(2e9 / 3) / 1e9],
    ])
    const mixed = await view().heat(PromptHeatInput.parse({ run: 'steps', class: 'mixed' }))
    expect(mixed).toMatchObject({ total: 1, rows: [{ preview: 'medium' }] })
    expect(
      (await list('steps')).items.map(({ preview, variedShare }) => [preview, variedShare]),
    ).toEqual(
      expect.arrayContaining([
        ['medium', 1],
        ['easy', 0],
      ]),
    )
    const heat = await view().heat(PromptHeatInput.parse({ run: 'steps' }))
    expect(heat).toMatchObject({
      ...{ total: 3, passRates: true },
      rows: [
        { preview: 'easy', rates: [1, 1] },
        { preview: 'medium', steps: [1, 2], rates: [0.25, 0.5] },
        { preview: 'hard', rates: [0, 0] },
      ],
    })
    const { prompts, eligible } = await view().sample(
      PromptSampleInput.parse({ run: 'steps', strategy: 'band', n: 5 }),
    )
    expect(eligible).toBe(1)
    expect(prompts).toMatchObject([{ preview: 'medium', recentPassRate: 3 / 8, lastStep: 2 }])
  })

  it('count all earlier steps that are left out', async () => {
    const runId = await makeRun('long')
    await db.adhoc(
      `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, groups, text_bucket,
         completed_at, group_passes)
       select $1, greatest(step, 1), 'train', 'completed', true, '{}', 'test', 0, 0, $2, now(), '{"passes": [], "bestOf": []}'
       from generate_series(0, $3::int) step`,
      [runId, bucket, MAX_STEPS + 3],
    )
    const of = async (range: object) => {
      const { earlier, steps } = await view().steps(
        PromptStepsInput.parse({ run: 'long', ...range }),
      )
      return [earlier, steps[0]?.step, steps.length]
    }
    expect(await of({})).toEqual([3, 4, MAX_STEPS])
    expect(await of({ from: 3 })).toEqual([1, 4, MAX_STEPS])
    expect(await of({ from: 4 })).toEqual([0, 4, MAX_STEPS])
  })

  it('of a repeated step are those of its last batch, and one sample has no spread', async () => {
    const runId = await makeRun('repeated')
    await makeBatch(runId, 1, [{ prompt: 'p', scores: [0, 0] }])
    const last = await makeBatch(runId, 1, [{ prompt: 'p', scores: [1] }])
    const { steps } = await view().steps(PromptStepsInput.parse({ run: 'repeated' }))
    expect(steps).toMatchObject([{ step: 1, batchId: `b${last.id}`, groups: { none: 0, all: 1 } }])
    const { key } = (await list('repeated')).items[0]!
    const { history } = await view().history(PromptHistoryInput.parse({ run: 'repeated', key }))
    expect(history.map(({ std }) => std)).toEqual([0, null])
  })

  it('of an unknown run are refused', async () => {
    await expect(list('nowhere')).rejects.toMatchObject({ reason: 'run_not_found' })
  })
})
