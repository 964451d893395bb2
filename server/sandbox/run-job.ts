import { z } from 'zod'
import { CaseResult, type SandboxLimit } from '../contract/sandbox.ts'

/** The job of a run, as `python/rewardops_sandbox/run.py` reads it. */
export interface RunJob {
  /** run: as `python main.py` · strong: tests in another process · weak: tests in the program's process. */
  mode: 'run' | 'strong' | 'weak'
  /** Trusted definitions before the program; the grader has them too. */
  helpers: string
  code: string
  /** Definitions of the tests, after the program. */
  setup: string
  /** Test cases: Python code that passes unless it raises an exception. */
  cases: readonly string[]
  /** Index of the first case to run. */
  first: number
  /** The program's function that the tests call. If null, they may call all functions that they do not define. */
  entryPoint: string | null
  /** Standard input. Null if it is empty. */
  stdin: string | null
  limits: {
    /** CPU time of all processes in the run, or in each case, whole seconds. */
    cpuS: number
    /** Time limit of the run, and of each case, s. */
    wallS: number
    memoryBytes: number
    outputBytes: number
    /** Maximum number of processes and threads. */
    processes: number
  }
}

const CaseReport = CaseResult.extend({
  /** Whether the program's process has ended; if so, a limit may be the cause. */
  ended: z.boolean(),
})
export type CaseReport = z.infer<typeof CaseReport>

/** A line that the tests' process reports. In weak isolation the program can write any line. */
export const ReportLine = z.union([
  z.strictObject({ loaded: z.literal(true) }),
  z.strictObject({ notLoaded: CaseReport }),
  z.strictObject({ case: CaseReport }),
  /** The reason why the tests need objects of the program. */
  z.strictObject({ needs: z.string() }),
  /** The error of tests that fail before their first case. */
  z.strictObject({ broken: z.string() }),
])
export type ReportLine = z.infer<typeof ReportLine>

export interface RunReport {
  limit: SandboxLimit | null
  wallS: number
  cpuS: number
  peakBytes: number
  /** Exit status of the program; if a signal ended it, the negative number of the signal. */
  returnCode: number
  /** In mode `run`: the standard output. */
  stdout?: string
  stderr: string
  /** In the other modes: the lines of the tests. Each is a `ReportLine` unless a program in weak isolation wrote it. */
  report?: unknown[]
}

/** Maximum total bytes of a program's standard streams and of its tests' report. */
const MAX_OUTPUT_BYTES = 4 * 2 ** 20
const MAX_PROCESSES = 64

export function runLimits(wallS: number, memoryMb: number): RunJob['limits'] {
  return {
    cpuS: Math.ceil(wallS),
    wallS,
    memoryBytes: Math.ceil(memoryMb * 2 ** 20),
    outputBytes: MAX_OUTPUT_BYTES,
    processes: MAX_PROCESSES,
  }
}
