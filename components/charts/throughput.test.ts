import { expect, test } from 'vitest'
import { prepareThroughput } from './throughput.prepare.ts'

const worker = (id: string, samplesPerSecondHistory: (number | null)[]) => ({
  id,
  samplesPerSecondHistory,
})

test('readings end now, and the seconds before a worker started are empty', () => {
  const data = prepareThroughput([worker('w2', [1, null, 3]), worker('w1', [5])])
  expect(data.seconds).toHaveLength(60)
  expect(data.seconds.slice(-4)).toEqual([
    { at: -3, w1: 0, w2: 0 },
    { at: -2, w1: 0, w2: 1 },
    { at: -1, w1: 0, w2: 0 },
    { at: 0, w1: 5, w2: 3 },
  ])
  expect([data.workers, data.others, data.hasSamples]).toEqual([['w1', 'w2'], null, true])
  expect(data.countTicks.at(-1)?.at).toBeGreaterThanOrEqual(8)
})

test('beyond eight workers the slowest are summed, so that the stack keeps its height', () => {
  const data = prepareThroughput(Array.from({ length: 10 }, (_, i) => worker(`w${i}`, [i])))
  expect(data.workers).toEqual(['w2', 'w3', 'w4', 'w5', 'w6', 'w7', 'w8', 'w9'])
  expect(data.others).toBe('2 more')
  expect(data.seconds.at(-1)?.['2 more']).toBe(1)
})

test('without a scored sample there is nothing to draw', () => {
  expect(prepareThroughput([worker('w1', [0, 0]), worker('w2', [])]).hasSamples).toBe(false)
})
