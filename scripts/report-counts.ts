/** How a suite went. */
export interface Counts {
  passed: number
  failed: number
  skipped: number
}

interface VitestReport {
  numPassedTests: number
  numFailedTests: number
  numPendingTests: number
  numTodoTests?: number
  testResults: { status: string; assertionResults: { status: string }[] }[]
}

/** Counts Vitest's JSON report. A file that could not be loaded holds no test, and counts as one that failed. */
export function countVitest(report: unknown): Counts {
  const {
    numPassedTests,
    numFailedTests,
    numPendingTests,
    numTodoTests = 0,
    testResults,
  } = report as VitestReport
  const unloaded = testResults.filter(
    (file) =>
      file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  )
  return {
    passed: numPassedTests,
    failed: numFailedTests + unloaded.length,
    skipped: numPendingTests + numTodoTests,
  }
}

interface PlaywrightReport {
  stats: { expected: number; unexpected: number; flaky: number; skipped: number }
  errors: unknown[]
}

/** Counts Playwright's JSON report. A test that passed only when repeated has failed. */
export function countPlaywright(report: unknown): Counts {
  const { stats, errors } = report as PlaywrightReport
  return {
    passed: stats.expected,
    failed: stats.unexpected + stats.flaky + errors.length,
    skipped: stats.skipped,
  }
}
