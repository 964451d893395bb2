import type {
  CaseResult,
  Isolation,
  RunTestsReply,
  RunTestsRequest,
  SandboxLimit,
} from '../contract/sandbox.ts'
import type { PythonRuns } from './python-runs.ts'
import { type CaseReport, ReportLine, type RunJob, type RunReport, runLimits } from './run-job.ts'

/** Thrown if the tests cannot be run; the message says why. */
class TestsError extends Error {
  override readonly name = 'TestsError'
}

/** Thrown if the tests need objects of the program and so must run in its process. */
class NeedsWeakIsolation extends TestsError {}

/**
 * Runs test cases against a program. Cases share the program's process until a case ends it; the remaining cases
 * continue in a new process. Only the tests decide whether they need weak isolation, never the program.
 */
export async function runTests(
  request: RunTestsRequest,
  runs: Pick<PythonRuns, 'run'>,
  signal: AbortSignal,
): Promise<RunTestsReply> {
  const startedMs = performance.now()
  const reply = (
    isolation: Isolation,
    isolationReason: string | null,
    cases: CaseResult[],
  ): RunTestsReply => ({
    status: 'Success',
    isolation,
    isolation_reason: isolationReason,
    cases,
    execution_time: (performance.now() - startedMs) / 1_000,
  })
  try {
    if (request.isolation === 'weak') {
      return reply('weak', null, await casesOf('weak', request, runs, signal))
    }
    try {
      return reply('strong', null, await casesOf('strong', request, runs, signal))
    } catch (error) {
      if (!(error instanceof NeedsWeakIsolation) || request.isolation === 'strong') throw error
      return reply('weak', error.message, await casesOf('weak', request, runs, signal))
    }
  } catch (error) {
    if (!(error instanceof TestsError)) throw error
    return { status: 'TestsError', message: error.message }
  }
}

async function casesOf(
  mode: Isolation,
  request: RunTestsRequest,
  runs: Pick<PythonRuns, 'run'>,
  signal: AbortSignal,
): Promise<CaseResult[]> {
  const { code, helpers, setup, cases, entry_point: entryPoint, run_timeout: wallS } = request
  const job: Omit<RunJob, 'first'> = {
    mode,
    helpers: helpers === '' ? '' : `${helpers}\n`,
    code,
    setup,
    cases,
    entryPoint: entryPoint ?? null,
    stdin: null,
    limits: runLimits(wallS, request.memory_limit_MB),
  }
  const results: CaseResult[] = []
  while (results.length < cases.length) {
    const report = await runs.run({ ...job, first: results.length }, signal)
    const { ended, isForAll } = resultsOf(mode, report)
    results.push(...ended)
    const last = results.at(-1) as CaseResult
    if (isForAll) while (results.length < cases.length) results.push(last)
  }
  // A program in weak isolation can report more cases than there are.
  return results.slice(0, cases.length)
}

/**
 * Returns the results of the cases that a run completed, and of the case that ended the run: at least one result. If
 * `isForAll`, the last result counts for all later cases.
 */
function resultsOf(mode: Isolation, run: RunReport): { ended: CaseResult[]; isForAll: boolean } {
  const ended: CaseResult[] = []
  let isLoaded = false
  const lines = (run.report ?? []).flatMap((line) => ReportLine.safeParse(line).data ?? [])
  for (const line of lines) {
    if ('case' in line) ended.push(result(line.case, run.limit))
    else if ('loaded' in line) isLoaded = true
    else if ('notLoaded' in line) {
      return { ended: [...ended, result(line.notLoaded, run.limit)], isForAll: true }
    } else if (mode === 'strong' && 'needs' in line) throw new NeedsWeakIsolation(line.needs)
    else if (mode === 'strong' && 'broken' in line) {
      throw new TestsError(`the tests fail before their first case: ${line.broken}`)
    }
  }
  const isCutOff = run.limit !== null && !lines.some(isEnded)
  if (isCutOff || ended.length === 0) {
    const detail = run.limit === null ? 'the process ended without a verdict' : null
    ended.push(limited({ status: 'runtime_error', detail, limit: null }, run.limit))
  }
  return { ended, isForAll: !isLoaded }
}

const isEnded = (line: ReportLine): boolean => 'case' in line && line.case.ended

function result({ status, detail, limit, ended }: CaseReport, ofRun: SandboxLimit | null) {
  return limited({ status, detail, limit }, ended ? ofRun : null)
}

function limited(given: CaseResult, limit: SandboxLimit | null): CaseResult {
  if (limit === null) return given
  const isLate = limit === 'cpu_time' || limit === 'wall_time'
  return { ...given, status: isLate ? 'timeout' : given.status, limit }
}
