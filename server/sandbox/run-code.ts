import type { z } from 'zod'
import type { RunCodeReply, RunCodeRequest } from '../contract/sandbox.ts'
import type { PythonRuns } from './python-runs.ts'
import { runLimits } from './run-job.ts'

/** Runs a program with its standard input, and answers as SandboxFusion does. */
export async function runCode(
  request: z.output<typeof RunCodeRequest>,
  runs: Pick<PythonRuns, 'run'>,
  signal: AbortSignal,
): Promise<RunCodeReply> {
  const { limit, wallS, returnCode, stdout, stderr } = await runs.run(
    {
      mode: 'run',
      helpers: '',
      code: request.code,
      setup: '',
      cases: [],
      first: 0,
      entryPoint: null,
      stdin: request.stdin ?? null,
      limits: runLimits(request.run_timeout, request.memory_limit_MB),
    },
    signal,
  )
  const isLate = limit === 'wall_time' || limit === 'cpu_time'
  const isRight = returnCode === 0 && limit === null
  return {
    status: isRight ? 'Success' : 'Failed',
    message: limit === null ? '' : `the program exceeded its limit of ${limit.replace('_', ' ')}`,
    compile_result: null,
    run_result: {
      status: isLate ? 'TimeLimitExceeded' : 'Finished',
      // A program that was killed at its output limit gets -1; one that was killed at a time limit has no return code.
      return_code: limit === 'output' ? -1 : isLate ? null : returnCode,
      execution_time: wallS,
      stdout: stdout ?? '',
      stderr,
      limit,
    },
  }
}
