import { expect, it } from 'vitest'
import { fuzzService, HAS_PAGES } from '../../testkit/service/fuzz/fuzz-service.ts'

/**
 * 100,000 hostile and valid calls, spread over every surface. testkit/service/fuzz/main.ts repeats the call with a
 * given seed and number.
 */

const CALLS = 100_000

it(`${CALLS} calls get documented answers, crash nothing and leave no memory behind`, async () => {
  // Pages are left out, because Next keeps up to 50 MB of recently opened documents in memory.
  const tally = await fuzzService(17, CALLS, { pages: false })
  expect(tally.faults).toEqual([])
  expect(tally).toMatchObject({ calls: CALLS, isSameProcesses: true, problems: [] })
  const [early, end] = tally.heapBytes
  expect(end, `heap: ${tally.heapBytes.join(', ')} bytes`).toBeLessThan(1.2 * early)
}, 3_600_000)

it.skipIf(!HAS_PAGES)(
  'calls that include pages get documented answers, and crash nothing',
  async () => {
    const tally = await fuzzService(18, CALLS / 5)
    expect(tally.faults).toEqual([])
    expect(tally).toMatchObject({ isSameProcesses: true, problems: [] })
  },
  3_600_000,
)
