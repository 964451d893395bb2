import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { EventLoopDelay } from './event-loop-delay.ts'

test('a blocked event loop is reported once', async () => {
  const delay = new EventLoopDelay()
  const delayOfBlock = async () => {
    const until = performance.now() + 100
    while (performance.now() < until);
    await sleep(1)
    return delay.take().maxMs
  }
  // A block is measured only after the timer has ticked once, so the test repeats the block until it is measured.
  await expect.poll(delayOfBlock).toBeGreaterThanOrEqual(80)
  expect(delay.take()).toEqual({ p99Ms: 0, maxMs: 0 })
})
