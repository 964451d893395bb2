import { describe, expect, it } from 'vitest'
import { StepClock } from './step-clock.ts'

describe('the step of samples whose protocol tells none', () => {
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

  it('is the one after the last step of the run, or the first', async () => {
    expect((await clockOf(7).clock.enter('r', 100)).step).toBe(8)
    expect((await clockOf(null).clock.enter('r', 100)).step).toBe(1)
  })

  it('stays while samples come, and moves on after a pause', async () => {
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

  it('stays while a sample of it is still being scored, however long that takes', async () => {
    const { time, clock } = clockOf(null)
    const slow = await clock.enter('r', 100)
    time.nowMs = 5_000
    expect((await clock.enter('r', 100)).step).toBe(1)
    slow.leave()
    slow.leave()
    time.nowMs = 10_000
    // The second one is still in flight: leaving twice counts once.
    expect((await clock.enter('r', 100)).step).toBe(1)
  })

  it('is each run’s own, and asked for again after a failure', async () => {
    let asked = 0
    const clock = new StepClock(async () => {
      if (asked++ === 0) throw new Error('away')
      return 3
    })
    await expect(clock.enter('a', 100)).rejects.toThrow('away')
    expect((await clock.enter('a', 100)).step).toBe(4)
    expect((await clock.enter('b', 100)).step).toBe(4)
  })
})
