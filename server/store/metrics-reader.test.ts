import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { insertServer } from '../cluster/testing/servers.ts'
import type { Database } from './database.ts'
import { MetricsReader } from './metrics-reader.ts'
import { MAX_METRIC_RUNS } from './run-totals.ts'
import { testQueueForFile } from './testing/test-queue.ts'

const database = testQueueForFile({ max: 4, level: 'silent' })

let db: Database

beforeAll(() => {
  db = database.db
})
beforeEach(() => db.adhoc('truncate server, server_minute, batch, run'))

describe('finished data', () => {
  it('of a server’s calls is counted once; the current minute is updated', async () => {
    const id = await insertServer(db)
    const minute = (minutesAgo: number, tokens: number) =>
      db.adhoc(
        `insert into server_minute as m (server_id, minute, requests, errors, retries, latency_ms, tokens)
         values ($1, date_trunc('minute', now()) - $2 * interval '1 minute', 1, 1, 1, array[0, $3::int], $3)
         on conflict (server_id, minute) do update set tokens = m.tokens + excluded.tokens`,
        [id, minutesAgo, tokens],
      )
    await minute(90, 5_000)
    await minute(20, 100)
    await minute(3, 10)
    await minute(0, 1)
    const reader = new MetricsReader(db, new Date(Date.now() - 3_600_000))
    for (let round = 0; round < 3; round++) {
      const figures = await reader.read()
      const calls = figures.calls.get(id)!
      expect(calls.tokens).toBe(111 + round)
      expect(calls.latency).toEqual([0, 111])
      // Calls before the reader's start are not counted.
      expect([calls.requests, calls.errors, calls.retries]).toEqual([3, 3, 3])
      await minute(0, 1)
    }
    // Settled minutes are not read again: deleting them changes no figure.
    await db.adhoc("delete from server_minute where minute < now() - interval '2 minutes'")
    expect((await reader.read()).calls.get(id)?.tokens).toBe(114)
    // By default, counters start with the minute of the first call of `begin` or `read`.
    expect((await new MetricsReader(db).read()).calls.get(id)?.tokens).toBe(4)
  })

  it('of batches is counted once; unfinished batches are read each time', async () => {
    const batch = (id: number, status: string, scored: number, endedAgo: string | null) =>
      db.adhoc(
        `insert into batch (id, run_id, step, split, status, closed, reward, reward_name, samples, scored, text_bucket,
           completed_at)
         values ($1, 1, 1, 'train', $2, true, '{}', 'rule', 10, $3, now(), now() - $4::interval)`,
        [id, status, scored, endedAgo],
      )
    await batch(1, 'completed', 10, '1 hour')
    await batch(2, 'running', 1, null)
    await batch(3, 'completed', 9, '1 hour')
    await batch(4, 'completed', 8, '1 second')
    const reader = new MetricsReader(db)
    expect((await reader.read()).batches).toMatchObject({ scored: 28, pending: 9 })
    await db.adhoc(
      "update batch set status = 'completed', scored = 10, completed_at = now() - interval '1 hour' where id = 2",
    )
    expect((await reader.read()).batches).toMatchObject({ scored: 37, pending: 0 })
    const { batches } = await reader.read()
    expect(batches.scored).toBe(37)
    expect(batches.batches).toEqual(new Map([['completed', 4]]))
    // While batch 5 is open, batch 6 is not settled. Removing batch 6 decreases no counter.
    await batch(5, 'running', 0, null)
    await batch(6, 'completed', 10, '1 hour')
    expect((await reader.read()).batches.scored).toBe(47)
    await db.adhoc('delete from batch where id = 6')
    const { batches: after, runs } = await reader.read()
    expect(after.scored).toBe(47)
    await db.adhoc('update batch set scored = 2 where id = 5')
    expect((await reader.read()).batches.scored).toBe(49)
    expect(runs.counts.get('other')?.scored).toBe(19)
  })
})

describe('runs', () => {
  const run = (id: number, name: string) =>
    db.adhoc('insert into run (id, name) values ($1, $2)', [id, name])
  const batch = (
    runId: number,
    fields: Record<string, unknown>,
    endedAgo: string | null = '1 minute',
  ) => {
    const row = {
      ...{
        run_id: runId,
        step: 1,
        split: 'train',
        status: 'completed',
        closed: true,
        reward: '{}',
      },
      ...{
        reward_name: 'rule',
        samples: 10,
        scored: 10,
        text_bucket: '2026-01-01',
        rolled_up: true,
      },
      ...fields,
    }
    const ended = `now() - '${endedAgo ?? '0 s'}'::interval`
    const columns = [...Object.keys(row), 'last_append_at', 'submitted_at', 'completed_at']
    const values = Object.keys(row).map((_, i) => `$${i + 1}`)
    const times = [ended, `${ended} - interval '4 s'`, endedAgo === null ? 'null' : ended]
    return db.adhoc(
      `insert into batch (${columns.join(', ')}) values (${[...values, ...times].join(', ')})`,
      Object.values(row),
    )
  }

  it('have counters over all their batches, and the figures of the last batch of each split', async () => {
    await run(1, 'a')
    await batch(1, { samples: 10, scored: 9, failed: 1, groups: 2, groups_completed: 2 }, '2 days')
    const signals = JSON.stringify({ varied: 3, all_correct: 1 })
    await batch(1, { step: 7, mean: 0.25, group_signals: signals })
    await batch(1, { step: 6, split: 'val', mean: 0.5 })
    await batch(1, { step: 8, rescored_from: 2, mean: 9 })
    await batch(1, { step: 8, status: 'running', rolled_up: false, scored: 3 }, null)
    const { runs } = await new MetricsReader(db).read()
    expect(runs.active).toBe(1)
    expect(runs.counts.get('a')).toMatchObject({ scored: 42, failed: 1, groups: 2, pending: 7 })
    expect(runs.lastBatches).toEqual([
      { run: 'a', split: 'train', step: 7, mean: 0.25, noSignal: 0.25, seconds: 4 },
      { run: 'a', split: 'val', step: 6, mean: 0.5, noSignal: null, seconds: 4 },
    ])
  })

  it('keep their counters if batches are removed', async () => {
    await run(1, 'a')
    await batch(1, { status: 'running', rolled_up: false, scored: 3 }, null)
    await batch(1, { scored: 9 })
    const reader = new MetricsReader(db)
    const scored = async () => (await reader.read()).runs.counts.get('a')?.scored
    expect(await scored()).toBe(12)
    await db.adhoc("delete from batch where status = 'completed'")
    expect(await scored()).toBe(12)
    await db.adhoc('update batch set scored = 5')
    expect(await scored()).toBe(14)
    await db.adhoc('delete from batch')
    expect(await scored()).toBe(14)
  })

  it('without new results stay inactive at the next reading', async () => {
    await run(1, 'idle')
    await batch(1, {}, '2 hours')
    const reader = new MetricsReader(db)
    expect((await reader.read()).runs.active).toBe(0)
    expect((await reader.read()).runs).toMatchObject({ active: 0, lastBatches: [] })
  })

  it('without activity in the last hour, or beyond the newest ones, are counted together', async () => {
    for (let id = 1; id <= MAX_METRIC_RUNS + 1; id++) await run(id, `r${id}`)
    for (let id = 1; id <= MAX_METRIC_RUNS + 1; id++) await batch(id, {}, `${1_000 - id} s`)
    await run(90, 'idle')
    await batch(90, {}, '2 hours')
    await run(91, 'other')
    const reader = new MetricsReader(db)
    const first = (await reader.read()).runs
    expect(first.active).toBe(MAX_METRIC_RUNS + 1)
    expect(first.counts.size).toBe(MAX_METRIC_RUNS + 1)
    expect(first.counts.has('r1') || first.counts.has('idle')).toBe(false)
    expect(first.counts.get('other')).toMatchObject({ scored: 0, pending: 0 })
    // r1 becomes the newest and displaces r2; a run named `other` is counted with the runs that have no series of their
    // own.
    await batch(1, { scored: 4 }, '1 s')
    await batch(2, { scored: 5 }, '999 s')
    await batch(91, { scored: 6 }, '1 s')
    const second = (await reader.read()).runs
    expect(second.counts.get('r1')).toMatchObject({ scored: 14 })
    expect(second.counts.get('other')).toMatchObject({ scored: 11 })
    await batch(1, { scored: 1 }, '0 s')
    expect((await reader.read()).runs.counts.get('other')).toMatchObject({ scored: 11 })
  })
})

it('concurrent callers share one reading', async () => {
  const reader = new MetricsReader(db)
  const [a, b] = [reader.read(), reader.read()]
  expect(await a).toBe(await b)
  expect(await reader.read()).not.toBe(await a)
})
