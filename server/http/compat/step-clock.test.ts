import { beforeEach, describe, expect, it } from 'vitest'
import { lastStep } from '../../store/sql/last-step.ts'
import { testQueueForFile } from '../../store/testing/test-queue.ts'
import { StepClock } from './step-clock.ts'

describe('the step of samples whose protocol has none', () => {
  /** Creates the clocks of two server processes that read the last step from the same database. */
  function clocks(last: { step: number; isActive: boolean } | null = null) {
    const shared = { nowMs: 0, last, reads: 0 }
    const clockOf = () =>
      new StepClock(
        async () => {
          shared.reads++
          return shared.last
        },
        () => shared.nowMs,
      )
    return { shared, clock: clockOf(), other: clockOf() }
  }

  it('follows the last step of the run, or is the first', async () => {
    expect((await clocks({ step: 7, isActive: false }).clock.enter('r', 100)).step).toBe(8)
    expect((await clocks().clock.enter('r', 100)).step).toBe(1)
  })

  it('stays while samples arrive, and increases after a pause', async () => {
    const { shared, clock } = clocks()
    for (const [atMs, step] of [
      [0, 1],
      [100, 1],
      [200, 1],
      [301, 2],
      [350, 2],
    ] as const) {
      shared.nowMs = atMs
      const entered = await clock.enter('r', 100)
      expect(entered.step, `at ${atMs}`).toBe(step)
      entered.leave()
      shared.last = { step, isActive: false }
    }
    expect(shared.reads).toBe(2)
  })

  it('stays while one of its samples is being scored, however long that takes', async () => {
    const { shared, clock } = clocks()
    const slow = await clock.enter('r', 100)
    shared.nowMs = 5_000
    expect((await clock.enter('r', 100)).step).toBe(1)
    slow.leave()
    slow.leave()
    shared.nowMs = 10_000
    // Leaving twice counts once, so the second sample is still in flight.
    expect((await clock.enter('r', 100)).step).toBe(1)
  })

  it('is the step of the samples at other processes, while that step is active', async () => {
    const { shared, clock, other } = clocks()
    const here = await clock.enter('r', 100)
    shared.last = { step: 1, isActive: true }
    shared.nowMs = 5_000
    expect((await other.enter('r', 100)).step).toBe(1)
    here.leave()
    shared.last = { step: 2, isActive: true }
    shared.nowMs = 10_000
    expect((await clock.enter('r', 100)).step).toBe(2)
  })

  it('is one for samples that arrive during the read', async () => {
    const { shared, clock } = clocks({ step: 3, isActive: false })
    const entered = await Promise.all(Array.from({ length: 9 }, () => clock.enter('r', 100)))
    expect(new Set(entered.map(({ step }) => step))).toEqual(new Set([4]))
    expect(shared.reads).toBe(1)
  })

  it('is separate for each run, and is read again after a failure', async () => {
    let reads = 0
    const clock = new StepClock(async () => {
      if (reads++ === 0) throw new Error('away')
      return { step: 3, isActive: false }
    })
    await expect(clock.enter('a', 100)).rejects.toThrow('away')
    expect((await clock.enter('a', 100)).step).toBe(4)
    expect((await clock.enter('b', 100)).step).toBe(4)
  })
})

describe('the last step of a run', () => {
  const database = testQueueForFile({ max: 2, level: 'silent' })
  const last = () => lastStep(database.db, 'r', 60_000)

  beforeEach(async () => {
    await database.db.adhoc('truncate run, batch, sample')
    await database.db.adhoc("insert into run (id, name) values (1, 'r')")
  })

  /** Inserts a batch with one sample, which arrived and ended the given numbers of minutes ago. */
  async function insert(
    step: number,
    { appended = 9, ended = null as number | null, implicit = true } = {},
  ): Promise<void> {
    await database.db.adhoc(
      `insert into batch (id, run_id, step, split, status, reward, reward_name, samples, scored, implicit_key,
         last_append_at, text_bucket)
       values ($1, 1, $1, 'train', 'open', '{}', 'test', 1, $2, $3, now() - $4 * interval '1 minute', current_date)`,
      [step, ended === null ? 0 : 1, implicit ? `key ${step}` : null, appended],
    )
    await database.db.adhoc(
      `insert into sample (batch_id, idx, group_no, data_source, ended_at)
       values ($1, 0, 0, 'test', now() - $2 * interval '1 minute')`,
      [step, ended],
    )
  }

  it('is null without batches', async () => {
    expect(await last()).toBeNull()
  })

  it('is active while a sample is pending', async () => {
    await insert(2, { ended: 0 })
    await insert(5)
    expect(await last()).toEqual({ step: 5, isActive: true })
  })

  it.each([
    [{ appended: 9, ended: 9 }, false],
    [{ appended: 0, ended: 0 }, true],
    [{ appended: 9, ended: 0 }, true],
    // The trainer sent the step, so pauses do not end it.
    [{ appended: 0, ended: 0, implicit: false }, false],
  ])('after samples that arrived and ended as in %o: active %s', async (times, isActive) => {
    await insert(5, times)
    expect(await last()).toEqual({ step: 5, isActive })
  })
})
