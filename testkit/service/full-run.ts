import { it } from 'vitest'

/** `npm run test:full`: also what takes longer. */
export const FULL = process.env.REWARDOPS_TEST_FULL === '1'

/** A test of the full run alone: it takes too long for every time. A whole file of such tests is named `*.full.test.ts`. */
export const itInFullRun: typeof it = FULL
  ? it
  : (Object.assign(() => {}, it, { skipIf: () => () => {} }) as unknown as typeof it)
