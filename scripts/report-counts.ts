import { stripVTControlCharacters } from 'node:util'

const MAX_ERROR_LINES = 12

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
  testResults: {
    name?: string
    status: string
    message?: string
    assertionResults: { status: string; fullName?: string; failureMessages?: string[] }[]
  }[]
}

/** Counts the tests in Vitest's JSON report. A file that could not be loaded has no tests and counts as one failure. */
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

export function failedInVitest(report: unknown): string[] {
  return (report as VitestReport).testResults
    .filter((file) => file.status === 'failed')
    .flatMap((file) => {
      const failed = file.assertionResults.filter((test) => test.status === 'failed')
      const path = file.name ?? 'a file without name'
      return failed.length > 0
        ? failed.map((test) =>
            withError(`${path}: ${test.fullName ?? ''}`, test.failureMessages?.[0]),
          )
        : [withError(`${path}: could not be loaded, or threw outside of its tests`, file.message)]
    })
}

/** A failed test and the first lines of its error, because the error itself is far up in a long log. */
function withError(test: string, error = ''): string {
  const lines = stripVTControlCharacters(error)
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.includes('node_modules'))
  return [test, ...lines.slice(0, MAX_ERROR_LINES).map((line) => `    ${line}`)].join('\n')
}

interface PlaywrightReport {
  stats: { expected: number; unexpected: number; flaky: number; skipped: number }
  errors: unknown[]
  config?: { rootDir: string }
  suites?: PlaywrightSuite[]
}

interface PlaywrightSuite {
  specs: {
    title: string
    file: string
    ok: boolean
    tests?: { results: { errors?: { message?: string }[] }[] }[]
  }[]
  suites?: PlaywrightSuite[]
}

/** Counts the tests in Playwright's JSON report. A test that passed only on retry counts as failed. */
export function countPlaywright(report: unknown): Counts {
  const { stats, errors } = report as PlaywrightReport
  return {
    passed: stats.expected,
    failed: stats.unexpected + stats.flaky + errors.length,
    skipped: stats.skipped,
  }
}

export function failedInPlaywright(report: unknown): string[] {
  const { config, suites = [] } = report as PlaywrightReport
  const failedOf = ({ specs, suites = [] }: PlaywrightSuite): string[] => [
    ...specs
      .filter(({ ok }) => !ok)
      .map(({ file, title, tests = [] }) => {
        const errors = tests.flatMap(({ results }) => results.flatMap(({ errors = [] }) => errors))
        return withError(`${config?.rootDir ?? ''}/${file}: ${title}`, errors[0]?.message)
      }),
    ...suites.flatMap(failedOf),
  ]
  return suites.flatMap(failedOf)
}
