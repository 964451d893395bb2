import { expect, it } from 'vitest'
import { fuzzService } from '../../testkit/service/fuzz/fuzz-service.ts'

/** 100,000 hostile and valid calls of every surface. A fault names its seed and number: testkit/service/fuzz/main.ts. */

const CALLS = 100_000

it(`${CALLS} calls get documented answers, crash nothing and leave no memory behind`, async () => {
  const tally = await fuzzService(17, CALLS)
  expect(tally.faults).toEqual([])
  expect(tally).toMatchObject({ calls: CALLS, isSameProcesses: true, problems: [] })
  const [early, end] = tally.heapBytes
  expect(end, `heap: ${tally.heapBytes.join(', ')} bytes`).toBeLessThan(1.2 * early)
}, 3_600_000)
