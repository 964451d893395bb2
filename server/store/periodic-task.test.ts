import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { PeriodicTask, type PeriodicWork } from './periodic-task.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const warn = vi.fn()
const logged = () => warn.mock.calls.splice(0)

function task(work: () => Promise<void>, options: Partial<PeriodicWork> = {}): PeriodicTask {
  return new PeriodicTask({ everyMs: 100, failed: 'it failed', log: { warn }, work, ...options })
}

/** Work whose turns run until the test ends them. */
function turns() {
  const open: PromiseWithResolvers<void>[] = []
  const work = vi.fn(() => {
    const turn = Promise.withResolvers<void>()
    open.push(turn)
    return turn.promise
  })
  const settle = async (end: (turn: PromiseWithResolvers<void>) => void) => {
    end(open.shift() as PromiseWithResolvers<void>)
    await vi.advanceTimersByTimeAsync(0)
  }
  return {
    work,
    end: () => settle((turn) => turn.resolve()),
    fail: (error: Error) => settle((turn) => turn.reject(error)),
  }
}

describe('a periodic task', () => {
  it('begins turns at its interval, and the first at the start if configured', async () => {
    const [later, atOnce] = [vi.fn(async () => {}), vi.fn(async () => {})]
    const tasks = [task(later), task(atOnce, { atStart: true })]
    for (const each of tasks) each.start()
    expect([later, atOnce].map((work) => work.mock.calls.length)).toEqual([0, 1])
    await vi.advanceTimersByTimeAsync(300)
    expect([later, atOnce].map((work) => work.mock.calls.length)).toEqual([3, 4])
    await Promise.all(tasks.map((each) => each.stop()))
  })

  it('skips turns that come due while one runs', async () => {
    const { work, end } = turns()
    const periodic = task(work)
    periodic.start()
    await vi.advanceTimersByTimeAsync(350)
    expect(work).toHaveBeenCalledTimes(1)
    await end()
    await vi.advanceTimersByTimeAsync(100)
    expect(work).toHaveBeenCalledTimes(2)
    await end()
    await periodic.stop()
  })

  it('runs on demand; concurrent callers wait for the same turn', async () => {
    const { work, end } = turns()
    const periodic = task(work)
    const over = vi.fn()
    void periodic.run().then(over)
    void periodic.run().then(over)
    await vi.advanceTimersByTimeAsync(0)
    expect(work).toHaveBeenCalledTimes(1)
    expect(over).not.toHaveBeenCalled()
    await end()
    expect(over).toHaveBeenCalledTimes(2)
  })

  it('logs a failure and continues, also after a synchronous error', async () => {
    const { work, fail } = turns()
    const periodic = task(work)
    periodic.start()
    await vi.advanceTimersByTimeAsync(100)
    await fail(new Error('broken'))
    expect(logged()).toEqual([[{ err: 'broken' }, 'it failed']])
    await vi.advanceTimersByTimeAsync(100)
    expect(work).toHaveBeenCalledTimes(2)
    await fail(Object.assign(new Error('the database is away'), { code: 'ECONNREFUSED' }))
    expect(logged()).toEqual([])
    work.mockImplementationOnce(() => {
      throw new Error('at once')
    })
    await vi.advanceTimersByTimeAsync(100)
    expect(logged()).toEqual([[{ err: 'at once' }, 'it failed']])
    await vi.advanceTimersByTimeAsync(100)
    expect(work).toHaveBeenCalledTimes(4)
    await fail(new Error('the last'))
    await periodic.stop()
    logged()
  })

  it('stop waits for the running turn, and no other turn begins', async () => {
    const { work, end } = turns()
    const periodic = task(work)
    periodic.start()
    await vi.advanceTimersByTimeAsync(100)
    const stopped = vi.fn()
    void periodic.stop().then(stopped)
    expect(periodic.stopping).toBe(true)
    await vi.advanceTimersByTimeAsync(1_000)
    expect(stopped).not.toHaveBeenCalled()
    await end()
    expect(stopped).toHaveBeenCalled()
    await periodic.run()
    await vi.advanceTimersByTimeAsync(1_000)
    expect(work).toHaveBeenCalledTimes(1)
  })
})
