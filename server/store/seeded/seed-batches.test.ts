import { expect, it } from 'vitest'
import { itInFullRun } from '../../../testkit/service/full-run.ts'
import { createLogger } from '../../log.ts'
import { Database } from '../database.ts'
import { testDatabaseForFile } from '../postgres/test-database.ts'
import { seedBatches, stepSamplesOf } from './seed-batches.ts'
import { SEEDED_RUNS } from './seeded-run.ts'

const database = testDatabaseForFile()

it('runs have at least 30 steps from 20,000 samples on, and full steps in long runs', () => {
  const stepsOf = (samples: number) => {
    const share = Math.round(samples / SEEDED_RUNS.length)
    return Math.ceil(share / stepSamplesOf(share))
  }
  for (let samples = 20_000; samples < 2_000_000; samples += 777) {
    expect(stepsOf(samples), `${samples}`).toBeGreaterThanOrEqual(30)
  }
  expect(stepsOf(1_000_000)).toBe(32)
  expect(stepSamplesOf(10_000_000 / SEEDED_RUNS.length)).toBe(8_192)
})

itInFullRun('final answers agree with verdicts and ground truths', async () => {
  const db = new Database(database.url, createLogger('silent', 'test'), { max: 2, name: 'test' })
  try {
    await seedBatches(db, { samples: 1_200, seed: 1, onBatch() {} })
    const rows = await db.adhoc<{
      verdict: string
      extracted: string | null
      pred: string | null
      response: string
      truth: string
    }>(
      `select verdict, extracted, reward_extra ->> 'pred' as pred, response, ground_truth::json #>> '{}' as truth
       from sample join sample_text using (batch_id, idx) where verdict is not null`,
    )
    expect(new Set(rows.map(({ verdict }) => verdict))).toEqual(
      new Set(['equal', 'different', 'no answer', 'all passed', 'some passed', 'none passed']),
    )
    for (const row of rows) {
      const answer = /The answer is (\d+)\./.exec(row.response)?.[1] ?? null
      expect(answer === null, row.response).toBe(row.verdict === 'no answer')
      expect(answer === row.truth).toBe(row.verdict === 'equal' || row.verdict === 'all passed')
      if (!row.verdict.includes('passed')) expect(row.extracted).toBe(answer)
      if (row.pred !== null) expect(row.pred).toBe(answer ?? '[INVALID]')
    }
  } finally {
    await db.close()
  }
})
