import { z } from 'zod'

/**
 * Messages between the rule `code` and a sandbox service. `POST /run_code` is defined by SandboxFusion, `POST
 * /run_tests` by this project.
 */

/** A limit that ended a run, or that the program reached during the run. */
export const SandboxLimit = z.enum([
  'cpu_time',
  'wall_time',
  'memory',
  'output',
  'processes',
  'files',
])
export type SandboxLimit = z.infer<typeof SandboxLimit>

/** `strong`: the tests run in a separate process. `weak`: the tests run in the program's process. */
export type Isolation = 'strong' | 'weak'

const seconds = z.number().positive().max(3_600).default(10)
const megabytes = z.number().positive().max(1_048_576).default(1_024)

/** The body of `/run_code`. Other SandboxFusion keys are ignored. */
export const RunCodeRequest = z.object({
  code: z.string(),
  language: z.string(),
  stdin: z.string().nullish(),
  /** Unused, because Python has no separate compile step. */
  compile_timeout: seconds,
  run_timeout: seconds,
  memory_limit_MB: megabytes,
  files: z.record(z.string(), z.unknown()).default({}),
  fetch_files: z.array(z.unknown()).default([]),
})

const RunResult = z.object({
  status: z.string(),
  stdout: z.string().nullish(),
  stderr: z.string().nullish(),
  return_code: z.number().nullish(),
  /** Duration of the run, s. */
  execution_time: z.number().nullish(),
  /** This project's addition: the limit that ended the run. */
  limit: SandboxLimit.nullish().catch(null),
})

/** The answer of `/run_code`. */
export const RunCodeReply = z.object({
  status: z.string(),
  message: z.string().nullish(),
  compile_result: RunResult.nullish(),
  run_result: RunResult.nullish(),
})
export type RunCodeReply = z.infer<typeof RunCodeReply>

/** The body of `/run_tests`. */
export const RunTestsRequest = z.object({
  code: z.string(),
  language: z.string(),
  /** Trusted code that runs before the program, such as a prompt with helper functions. The tests can use it too. */
  helpers: z.string().default(''),
  /** Definitions that the tests use. They run after the program. */
  setup: z.string().default(''),
  /** Test cases in Python; a case passes unless it raises an exception. */
  cases: z.array(z.string()).min(1).max(10_000),
  /** The function that the tests call. Null means every function that the tests call but do not define. */
  entry_point: z.string().nullish(),
  /** `auto`: strong isolation, or weak if the tests need objects of the program. */
  isolation: z.enum(['auto', 'strong', 'weak']).default('auto'),
  /** Time limit of each case, s. */
  run_timeout: seconds,
  memory_limit_MB: megabytes,
})
export type RunTestsRequest = z.infer<typeof RunTestsRequest>

/** The outcome of one test case. */
export const CaseResult = z.object({
  status: z.enum([
    'passed',
    'wrong_answer',
    'runtime_error',
    'timeout',
    'compile_error',
    /** The function returned a value that is too large, or whose type is not built in. */
    'unsupported_type',
  ]),
  detail: z.string().nullable(),
  limit: SandboxLimit.nullable(),
})
export type CaseResult = z.infer<typeof CaseResult>

/** The answer of `/run_tests`. */
export const RunTestsReply = z.discriminatedUnion('status', [
  z.object({
    status: z.literal('Success'),
    isolation: z.enum(['strong', 'weak']),
    /** The reason for weak isolation. Null if isolation is strong or weak isolation was requested. */
    isolation_reason: z.string().nullable(),
    cases: z.array(CaseResult),
    /** Duration of the run, s. */
    execution_time: z.number(),
  }),
  /** The tests themselves cannot be run. */
  z.object({ status: z.literal('TestsError'), message: z.string() }),
  z.object({ status: z.literal('SandboxError'), message: z.string() }),
])
export type RunTestsReply = z.infer<typeof RunTestsReply>

/** Name of the sandbox that a server or a worker runs itself. */
export const LOCAL_SANDBOX = 'local'

/** The local sandbox: its socket and maximum number of concurrent programs, or the reason why it is not available. */
export type LocalSandbox =
  | { ok: true; socketPath: string; slots: number }
  | { ok: false; reason: string; remedy: string }

/**
 * A local worker's request to use the service's sandbox, and the answer. The sandbox starts at the first request.
 */
export interface SandboxMessage {
  type: 'sandbox'
  /** Set only in the answer. */
  sandbox?: LocalSandbox
}

/**
 * Returns a sandbox's URL without `/run_code`, which is the form that is stored and compared. Returns null if the text
 * is not an HTTP URL.
 */
export function sandboxAddress(text: string): string | null {
  const url = URL.parse(text)
  const isAddress = url !== null && /^https?:$/.test(url.protocol) && url.username === ''
  return isAddress ? url.href.replace(/(\/run_code)?\/*$/, '') : null
}
