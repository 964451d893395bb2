import { it } from 'vitest'

/** Whether this is `npm run test:full`, which includes the slow tests. */
export const FULL = process.env.REWARDOPS_TEST_FULL === '1'

/** A test that only the full run executes, because it is slow. A file of only such tests is named `*.full.test.ts`. */
export const itInFullRun: typeof it = FULL
  ? it
  : (Object.assign(() => {}, it, { skipIf: () => () => {} }) as unknown as typeof it)

export const inFullRun = <T>(...rows: T[]): T[] => (FULL ? rows : [])
