import { describe, expect, it, vi } from 'vitest'
import { endKey, whileKeyHolds } from './key-end.ts'

/** What is done for somebody with a key, for as long as the key is good. */

const forever = () => new Promise<never>(() => {})

describe('what lasts while a key is good', () => {
  it('gives what the work gives, or throws what it throws', async () => {
    const { signal } = new AbortController()
    expect(await whileKeyHolds(signal, undefined, async () => 'done')).toBe('done')
    const wrong = whileKeyHolds(signal, undefined, () => Promise.reject(new Error('wrong')))
    await expect(wrong).rejects.toThrow('wrong')
    const atOnce = whileKeyHolds(signal, undefined, () => {
      throw new Error('at once')
    })
    await expect(atOnce).rejects.toThrow('at once')
  })

  it('is refused with the first reason when the key ends, and its work is told', async () => {
    const key = new AbortController()
    const signals: AbortSignal[] = []
    const all = [1, 2, 3].map(() =>
      whileKeyHolds(key.signal, undefined, (until) => {
        signals.push(until)
        return forever()
      }),
    )
    const told = Promise.allSettled(all)
    endKey(key, 'The key was revoked.')
    endKey(key, 'The key has expired.')
    const refusal = { reason: 'unauthorized', message: 'The key was revoked.' }
    for (const end of await told) {
      expect(end).toMatchObject({ status: 'rejected', reason: refusal })
    }
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true])
  })

  it('is not begun with a key that has ended', async () => {
    const key = new AbortController()
    endKey(key, 'The key has expired.')
    const work = vi.fn(forever)
    await expect(whileKeyHolds(key.signal, undefined, work)).rejects.toThrow('has expired')
    expect(work).not.toHaveBeenCalled()
  })

  it('is told as well when its caller goes, and may end as it likes', async () => {
    const [key, gone] = [new AbortController(), new AbortController()]
    const work = (until: AbortSignal) =>
      new Promise<string>((resolve) =>
        until.addEventListener('abort', () => resolve('left'), { once: true }),
      )
    const left = whileKeyHolds(key.signal, gone.signal, work)
    gone.abort()
    expect(await left).toBe('left')
    const late = whileKeyHolds(key.signal, gone.signal, async (until) => until.aborted)
    expect(await late).toBe(true)
  })

  it('leaves nothing at the key: 10,000 calls are one listener', async () => {
    const key = new AbortController()
    const added = vi.spyOn(key.signal, 'addEventListener')
    const signals: AbortSignal[] = []
    for (let n = 0; n < 10_000; n++) {
      await whileKeyHolds(key.signal, undefined, async (until) => void signals.push(until))
    }
    expect(added).toHaveBeenCalledTimes(1)
    endKey(key, 'The key was revoked.')
    // Those that were over before are not told.
    expect(signals.filter(({ aborted }) => aborted)).toEqual([])
  })
})
