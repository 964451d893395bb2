import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ChangesDto, Dimension } from '../contract/changes.ts'
import { createLogger } from '../log.ts'
import { Database } from '../store/database.ts'
import { testDatabaseForFile } from '../store/postgres/test-database.ts'
import { storeBatchRollUps } from '../store/sql/batch-roll-ups.ts'
import { ChangesView } from './changes-view.ts'

const database = testDatabaseForFile()
let db: Database

beforeAll(() => {
  db = new Database(database.url, createLogger('error', 'test'), {
    max: 2,
    name: 'test',
    keyed: true,
    statementTimeoutMs: 10_000,
  })
})
afterAll(() => db.close())

interface Made {
  source?: string
  prompt?: number
  verdict?: string | null
  score: number | null
  extra?: Record<string, unknown>
}

const GROUP = 8

async function makeRun(name: string, steps: readonly Made[][], reward: object = {}): Promise<void> {
  const [run] = await db.adhoc<{ id: number }>('insert into run (name) values ($1) returning id', [
    name,
  ])
  for (const [step, samples] of steps.entries()) {
    const scores = samples.flatMap(({ score }) => score ?? [])
    const [batch] = await db.adhoc<{ id: number }>(
      `insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, groups, text_bucket, completed_at, mean)
       values ($1, $2, 'train', 'completed', true, $3, 'test', $4, $5, current_date, now(), $6) returning id`,
      [
        ...[run!.id, step, reward, samples.length, Math.ceil(samples.length / GROUP)],
        scores.reduce((sum, score) => sum + score, 0) / scores.length,
      ],
    )
    const { id } = batch!
    await db.adhoc(
      `insert into sample (batch_id, idx, group_no, data_source, status, score, reason, verdict, reward_extra, response_length)
       select $1, ord - 1, (ord - 1) / ${GROUP}, coalesce(s ->> 'source', 'gsm8k'),
         case when s ->> 'score' is null then 3 else 2 end, (s ->> 'score')::float8,
         case when s ->> 'score' is null then 'timeout' end, s ->> 'verdict', (s -> 'extra')::json, 100 + ord % 7
       from jsonb_array_elements($2::jsonb) with ordinality as t(s, ord)`,
      [id, JSON.stringify(samples)],
    )
    await db.adhoc(
      `insert into sample_group (batch_id, no, uid, received, prompt_key)
       select $1, no, 'q' || no, ${GROUP}, decode(md5(prompt::text), 'hex')
       from unnest($2::int[]) with ordinality as t(prompt, ord), lateral (select (ord - 1)::int as no) n`,
      [id, samples.flatMap(({ prompt }, at) => (at % GROUP === 0 ? (prompt ?? at / GROUP) : []))],
    )
    await storeBatchRollUps(
      db,
      id,
      Object.hasOwn(reward, 'components') ? ['', 'answer', 'style'] : [],
    )
  }
}

function numbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 4_294_967_296
  }
}

/** A step of 32 prompts of different difficulty. `unmarked` is the share of responses in which no answer is found. */
function gsm8kStep(random: () => number, rate: number, unmarked = 0.03): Made[] {
  return Array.from({ length: 32 * GROUP }, (_, i): Made => {
    const difficulty = 0.3 * Math.sin(Math.floor(i / GROUP))
    if (random() < unmarked) return { verdict: 'no answer', score: 0 }
    const isRight = random() < rate + difficulty
    return { verdict: isRight ? 'equal' : 'different', score: isRight ? 1 : 0 }
  })
}

function checkSums({ change, breakdowns }: ChangesDto): void {
  for (const { parts, missing } of breakdowns) {
    if (missing !== null) continue
    const sum = parts.reduce((all, { total }) => all + total.value, 0)
    expect(Math.abs(sum - (change?.value ?? Number.NaN))).toBeLessThan(1e-9)
  }
}

const partOf = ({ breakdowns }: ChangesDto, dimension: Dimension, key: string) =>
  breakdowns.find((one) => one.dimension === dimension)?.parts.find((part) => part.key === key)

const changesOf = (name: string, more: object = {}) =>
  new ChangesView(db).get({ name, split: 'train', ...more })

describe('a planted cause is named', () => {
  it('responses without an answer at two steps', async () => {
    const random = numbers(1)
    const steps = Array.from({ length: 20 }, (_, step) =>
      gsm8kStep(random, 0.5, step === 12 || step === 13 ? 0.65 : 0.03),
    )
    await makeRun('format', steps)
    const found = await changesOf('format')
    checkSums(found)
    expect(found.chosen).toBe('largest')
    expect([found.before.from, found.before.to, found.after.from, found.after.to]).toEqual([
      10, 11, 12, 13,
    ])
    expect(found.suddenChanges).toMatchObject([
      { before: { from: 10, to: 11 }, after: { from: 12, to: 13 } },
      { before: { from: 12, to: 13 }, after: { from: 14, to: 15 } },
    ])
    expect(found.suddenChanges[0]?.change).toBeLessThan(-0.1)
    expect(found.suddenChanges[1]?.change).toBeGreaterThan(0.1)
    expect(found.standsOut).toEqual({ dimension: 'outcome', key: 'no answer', by: 'total' })
    const part = partOf(found, 'outcome', 'no answer')
    expect(part?.after.share).toBeCloseTo(0.65, 1)
    expect(part?.total.value).toBeLessThan(-0.1)
  })

  it('a component that drifts', async () => {
    const random = numbers(2)
    const steps = Array.from({ length: 16 }, (_, step) =>
      Array.from({ length: 256 }, (): Made => {
        const answer = random() < 0.5 ? 1 : 0
        const style = random() * 0.4 + (step >= 9 ? 0.5 : 0)
        return {
          verdict: answer === 1 ? 'equal' : 'different',
          score: answer + 0.3 * style,
          extra: { answer, style },
        }
      }),
    )
    const components = [
      { name: 'answer', weight: 1 },
      { name: 'style', weight: 0.3 },
    ]
    await makeRun('drift', steps, { components })
    const found = await changesOf('drift', {
      before: { from: 0, to: 8 },
      after: { from: 9, to: 15 },
    })
    checkSums(found)
    expect(found.standsOut).toEqual({ dimension: 'component', key: 'style', by: 'total' })
    const exact = (from: number, to: number) => {
      const values = steps
        .slice(from, to)
        .flat()
        .map(({ extra }) => extra?.style as number)
      return values.reduce((sum, value) => sum + value, 0) / values.length
    }
    const part = partOf(found, 'component', 'style')?.total
    expect(part?.value).toBeCloseTo(0.3 * (exact(9, 16) - exact(0, 9)), 10)
    expect(part?.low as number).toBeLessThan(0.15)
    expect(part?.high as number).toBeGreaterThan(0.15)
  })

  it('a component in the newest steps of a run that is too short for the search', async () => {
    const random = numbers(10)
    const steps = Array.from({ length: 7 }, (_, step) =>
      Array.from({ length: 256 }, (): Made => {
        const style = random() * 0.1 + (step >= 5 ? 0.3 : 0)
        return { verdict: null, score: style, extra: { answer: 0, style } }
      }),
    )
    const components = [
      { name: 'answer', weight: 1 },
      { name: 'style', weight: 1 },
    ]
    await makeRun('few-steps', steps, { components })
    const found = await changesOf('few-steps')
    expect(found.chosen).toBe('unsearched')
    expect([found.before.from, found.after.to]).toEqual([3, 6])
    expect(found.standsOut).toEqual({ dimension: 'component', key: 'style', by: 'total' })
    const given = { before: { from: 3, to: 4 }, after: { from: 5, to: 6 } }
    expect((await changesOf('few-steps', given)).standsOut).toEqual(found.standsOut)
  })

  it('another mix of data sources, and nothing within each source', async () => {
    const random = numbers(3)
    const step = (hard: number) =>
      Array.from({ length: 64 }, () => (random() < hard ? 'hard' : 'easy')).flatMap((source) =>
        Array.from({ length: GROUP }, (): Made => {
          const isRight = random() < (source === 'hard' ? 0.2 : 0.8)
          return { source, verdict: isRight ? 'equal' : 'different', score: isRight ? 1 : 0 }
        }),
      )
    await makeRun(
      'mix',
      Array.from({ length: 20 }, (_, at) => step(at >= 10 ? 0.9 : 0.5)),
    )
    const found = await changesOf('mix', {
      before: { from: 6, to: 9 },
      after: { from: 10, to: 13 },
    })
    checkSums(found)
    expect(found.standsOut).toMatchObject({ dimension: 'dataSource', by: 'mix' })
    expect(found.dataSources).toEqual(['easy', 'hard'])
    for (const dataSource of found.dataSources) {
      const within = await changesOf('mix', {
        ...{ before: { from: 6, to: 9 }, after: { from: 10, to: 13 }, dataSource },
      })
      checkSums(within)
      expect(within.standsOut).toBeNull()
      expect((within.change?.low as number) < 0 && (within.change?.high as number) > 0).toBe(true)
    }
  })

  it('one data source that changes, but none of two that change equally', async () => {
    const random = numbers(8)
    const step = (rates: { a: number; b: number }) =>
      Array.from({ length: 64 }, (_, group) => (group < 40 ? 'a' : 'b')).flatMap((source) =>
        Array.from({ length: GROUP }, (): Made => {
          const isRight = random() < rates[source as 'a' | 'b']
          return { source, verdict: isRight ? 'equal' : 'different', score: isRight ? 1 : 0 }
        }),
      )
    const ranges = { before: { from: 0, to: 3 }, after: { from: 4, to: 7 } }
    const run = (after: { a: number; b: number }) =>
      Array.from({ length: 8 }, (_, at) => step(at < 4 ? { a: 0.7, b: 0.7 } : after))
    await makeRun('one-source', run({ a: 0.7, b: 0.3 }))
    const found = await changesOf('one-source', ranges)
    checkSums(found)
    expect(found.standsOut).toEqual({ dimension: 'dataSource', key: 'b', by: 'within' })
    await makeRun('both-sources', run({ a: 0.4, b: 0.4 }))
    expect((await changesOf('both-sources', ranges)).standsOut).toBeNull()
  })

  it('nothing in a fall of which no part explains half', async () => {
    const random = numbers(11)
    const steps = Array.from({ length: 8 }, (_, step) =>
      step < 4 ? gsm8kStep(random, 0.7) : gsm8kStep(random, 0.4, 0.2),
    )
    await makeRun('partly', steps)
    const ranges = { before: { from: 0, to: 3 }, after: { from: 4, to: 7 } }
    const found = await changesOf('partly', ranges)
    checkSums(found)
    const part = partOf(found, 'outcome', 'no answer')?.total
    expect(part?.high).toBeLessThan(0)
    expect((part?.value as number) / (found.change?.value as number)).toBeLessThan(0.5)
    expect(found.standsOut).toBeNull()
  })

  it('nothing in a healthy run', async () => {
    const random = numbers(4)
    await makeRun(
      'healthy',
      Array.from({ length: 30 }, (_, step) => gsm8kStep(random, 0.4 + 0.005 * step)),
    )
    const found = await changesOf('healthy')
    checkSums(found)
    expect(found.chosen).toBe('latest')
    expect(found.standsOut).toBeNull()
  })
})

describe('a comparison', () => {
  it('follows prompts by their key, and lists those that changed most', async () => {
    const random = numbers(5)
    const steps = [0, 1, 2, 3].map((step) =>
      Array.from({ length: 32 * GROUP }, (_, i): Made => {
        const prompt = Math.floor(i / GROUP)
        const isForgotten = prompt === 7 && step >= 2
        const score = random() < (isForgotten ? 0 : 0.9) ? 1 : 0
        return { prompt: prompt < 8 ? prompt : 100 * (step + 1) + prompt, score, verdict: null }
      }),
    )
    await makeRun('prompts', steps)
    const found = await changesOf('prompts', {
      before: { from: 0, to: 1 },
      after: { from: 2, to: 3 },
    })
    checkSums(found)
    expect(found.prompts[0]).toMatchObject({
      ...{ key: '8f14e45fceea167a5a36dedd4bea2543', uid: 'q7', after: 0 },
    })
    expect(partOf(found, 'prompt', 'both')?.before.share).toBeCloseTo(0.25, 10)
    expect(partOf(found, 'prompt', 'after')?.before.n).toBe(0)
  })

  it('leaves out failed samples, and says how many', async () => {
    const step = (failed: number): Made[] =>
      Array.from({ length: 64 }, (_, i) => ({ score: i < failed ? null : i % 2, verdict: null }))
    await makeRun('failed', [step(0), step(16)])
    const found = await changesOf('failed')
    expect(found.excluded).toEqual([{ reason: 'timeout', before: 0, after: 16 }])
    expect(found.after.samples).toBe(48)
  })

  it('of long ranges is by step, from roll-ups', async () => {
    const random = numbers(6)
    const source = (i: number) => (i % 3 === 0 ? 'math' : 'gsm8k')
    const steps = Array.from({ length: 6 }, (_, step) =>
      gsm8kStep(random, step < 3 ? 0.5 : 0.3).map(
        (made, i): Made => ({ ...made, source: source(i) }),
      ),
    )
    await makeRun('long', steps)
    await db.adhoc(
      "update batch set samples = 100000 where run_id = (select id from run where name = 'long')",
    )
    const ranges = { before: { from: 0, to: 2 }, after: { from: 3, to: 5 } }
    const found = await changesOf('long', ranges)
    checkSums(found)
    expect(found.unit).toBe('step')
    await db.adhoc(
      "update batch set samples = 256 where run_id = (select id from run where name = 'long')",
    )
    const exact = await changesOf('long', ranges)
    expect(exact.unit).toBe('group')
    expect(found.change?.value).toBeCloseTo(exact.change?.value as number, 10)
    for (const dimension of ['outcome', 'dataSource'] as const) {
      for (const { key, total } of exact.breakdowns.find((one) => one.dimension === dimension)
        ?.parts ?? []) {
        expect(partOf(found, dimension, key)?.total.value).toBeCloseTo(total.value, 10)
      }
    }
  })

  it('of unknown runs or missing steps is refused, and the error names them', async () => {
    await expect(changesOf('unknown')).rejects.toMatchObject({ reason: 'run_not_found' })
    await makeRun('short', [gsm8kStep(numbers(9), 0.5)])
    await expect(changesOf('short')).rejects.toMatchObject({ reason: 'no_such_step' })
    const ranges = { before: { from: 0, to: 0 }, after: { from: 5, to: 9 } }
    await expect(changesOf('short', ranges)).rejects.toMatchObject({ reason: 'no_such_step' })
  })
})
