import { describe, expect, it, vi } from 'vitest'
import { endKey, whileKeyHolds } from './key-end.ts'

const forever = () => new Promise<never>(() => {})

describe('work that ends with a key', () => {
  it('returns or throws the result of the work', async () => {
    const { signal } = new AbortController()
    expect(await whileKeyHolds(signal, undefined, async () => 'done')).toBe('done')
    const wrong = whileKeyHolds(signal, undefined, () => Promise.reject(new Error('wrong')))
    await expect(wrong).rejects.toThrow('wrong')
    const atOnce = whileKeyHolds(signal, undefined, () => {
      throw new Error('at once')
    })
    await expect(atOnce).rejects.toThrow('at once')
  })

  it('is rejected with the first reason when the key ends, and its signal aborts', async () => {
    const key = new AbortController()
    const signals: AbortSignal[] = []
    const all = [1, 2, 3].map(() =>
      whileKeyHolds(key.signal, undefined, (until) => {
        signals.push(until)
        return forever()
      }),
    )
    const settled = Promise.allSettled(all)
    endKey(key, 'The key was revoked.')
    endKey(key, 'The key has expired.')
    const refusal = { reason: 'unauthorized', message: 'The key was revoked.' }
    for (const end of await settled) {
      expect(end).toMatchObject({ status: 'rejected', reason: refusal })
    }
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true])
  })

  it('does not begin with an ended key', async () => {
    const key = new AbortController()
    endKey(key, 'The key has expired.')
    const work = vi.fn(forever)
    await expect(whileKeyHolds(key.signal, undefined, work)).rejects.toThrow('has expired')
    expect(work).not.toHaveBeenCalled()
  })

  it('is aborted when its caller disconnects, and may still return a result', async () => {
    const [key, gone] = [new AbortController(), new AbortController()]
    const work = (until: AbortSignal) =>
      new Promise<string>((resolve) =>
        until.addEventListener('abort', () => resolve('left'), { once: true }),
      )
    const left = whileKeyHolds(key.signal, gone.signal, work)
    gone.abort()
    expect(await left).toBe('left')
    const late = vi.fn(forever)
    await expect(whileKeyHolds(key.signal, gone.signal, late)).rejects.toBe(gone.signal.reason)
    expect(late).not.toHaveBeenCalled()
  })

  it('leaves no callback on the key, and 10,000 calls share one listener', async () => {
    const key = new AbortController()
    const added = vi.spyOn(key.signal, 'addEventListener')
    const signals: AbortSignal[] = []
    for (let n = 0; n < 10_000; n++) {
      await whileKeyHolds(key.signal, undefined, async (until) => void signals.push(until))
    }
    expect(added).toHaveBeenCalledTimes(1)
    endKey(key, 'The key was revoked.')
    expect(signals.filter(({ aborted }) => aborted)).toEqual([])
  })
})
