import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Memo } from './memo.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

function question() {
  const queries: PromiseWithResolvers<string>[] = []
  const ask = () => {
    const next = Promise.withResolvers<string>()
    queries.push(next)
    return next.promise
  }
  return { queries, ask }
}

describe('a cached result', () => {
  it('is kept for longer if its query took long', async () => {
    const memo = new Memo<string>(700, 0, 0.1)
    const { queries, ask } = question()
    const slow = memo.get('b1', ask)
    vi.advanceTimersByTime(1_000)
    queries[0]?.resolve('one')
    await slow
    vi.advanceTimersByTime(8_999)
    await memo.get('b1', ask)
    expect(queries).toHaveLength(1)
    vi.advanceTimersByTime(2)
    void memo.get('b1', ask)
    expect(queries).toHaveLength(2)
  })

  it('serves concurrent callers with one query, and expires after its time to live', async () => {
    const memo = new Memo<string>(700)
    const { queries, ask } = question()
    const both = [memo.get('b1', ask), memo.get('b1', ask)]
    queries[0]?.resolve('one')
    expect(await Promise.all(both)).toEqual(['one', 'one'])
    vi.advanceTimersByTime(699)
    expect(await memo.get('b1', ask)).toBe('one')
    vi.advanceTimersByTime(1)
    const next = memo.get('b1', ask)
    queries[1]?.resolve('two')
    expect(await next).toBe('two')
    expect(queries).toHaveLength(2)
  })

  it('is not kept after a failure', async () => {
    const memo = new Memo<string>(700)
    const { queries, ask } = question()
    const first = memo.get('b1', ask)
    queries[0]?.reject(new Error('away'))
    await expect(first).rejects.toThrow('away')
    const next = memo.get('b1', ask)
    queries[1]?.resolve('one')
    expect(await next).toBe('one')
  })

  it('is returned while stale, and one new query runs', async () => {
    const memo = new Memo<string>(700, 2_000)
    const { queries, ask } = question()
    const first = memo.get('b1', ask)
    queries[0]?.resolve('one')
    await first
    vi.advanceTimersByTime(1_000)
    expect(await Promise.all([memo.get('b1', ask), memo.get('b1', ask)])).toEqual(['one', 'one'])
    expect(queries).toHaveLength(2)
    queries[1]?.resolve('two')
    await queries[1]?.promise
    await Promise.resolve()
    expect(await memo.get('b1', ask)).toBe('two')
    expect(queries).toHaveLength(2)
  })

  it('is not returned beyond its stale time, nor after the new query failed', async () => {
    const memo = new Memo<string>(700, 2_000)
    const { queries, ask } = question()
    const first = memo.get('b1', ask)
    queries[0]?.resolve('one')
    await first
    vi.advanceTimersByTime(2_700)
    const second = memo.get('b1', ask)
    queries[1]?.resolve('two')
    expect(await second).toBe('two')
    vi.advanceTimersByTime(800)
    expect(await memo.get('b1', ask)).toBe('two')
    queries[2]?.reject(new Error('away'))
    await queries[2]?.promise.catch(() => {})
    await Promise.resolve()
    const third = memo.get('b1', ask)
    queries[3]?.resolve('three')
    expect(await third).toBe('three')
  })
})
