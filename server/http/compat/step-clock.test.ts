import { describe, expect, it } from 'vitest'
import { StepClock } from './step-clock.ts'

describe('the step of samples whose protocol has none', () => {
  function clockOf(last: number | null) {
    const time = { nowMs: 0 }
    return {
      time,
      clock: new StepClock(
        async () => last,
        () => time.nowMs,
      ),
    }
  }

  it('follows the last step of the run, or is the first', async () => {
    expect((await clockOf(7).clock.enter('r', 100)).step).toBe(8)
    expect((await clockOf(null).clock.enter('r', 100)).step).toBe(1)
  })

  it('stays while samples arrive, and increases after a pause', async () => {
    const { time, clock } = clockOf(null)
    for (const [atMs, step] of [
      [0, 1],
      [100, 1],
      [200, 1],
      [301, 2],
      [350, 2],
    ] as const) {
      time.nowMs = atMs
      const entered = await clock.enter('r', 100)
      expect(entered.step, `at ${atMs}`).toBe(step)
      entered.leave()
    }
  })

  it('stays while one of its samples is being scored, however long that takes', async () => {
    const { time, clock } = clockOf(null)
    const slow = await clock.enter('r', 100)
    time.nowMs = 5_000
    expect((await clock.enter('r', 100)).step).toBe(1)
    slow.leave()
    slow.leave()
    time.nowMs = 10_000
    // Leaving twice counts once, so the second sample is still in flight.
    expect((await clock.enter('r', 100)).step).toBe(1)
  })

  it('is separate for each run, and is read again after a failure', async () => {
    let reads = 0
    const clock = new StepClock(async () => {
      if (reads++ === 0) throw new Error('away')
      return 3
    })
    await expect(clock.enter('a', 100)).rejects.toThrow('away')
    expect((await clock.enter('a', 100)).step).toBe(4)
    expect((await clock.enter('b', 100)).step).toBe(4)
  })
})
