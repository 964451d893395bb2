import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { CallLimit } from '../../call-limit.ts'
import type { CaseResult, Isolation } from '../../contract/sandbox.ts'
import { type AsyncRuleContext, defineAsyncRule } from './async-rule.ts'
import { testCasesOf, type UnitTests } from './code-cases.ts'
import { RuleInputError, type RuleResult, versionOption } from './rule.ts'
import { runInSandbox, type SandboxOutcome, testInSandbox } from './sandbox-fusion.ts'

/** Number of test cases that count if `continuous` is set, as in verl. */
const COUNTED_CASES = 10

const MAX_EXTRACT_CHARS = 2_000
const MAX_FAILURE_CHARS = 300

/**
 * Extracts the program from a response: the last ```` ```python ```` block, else the first block of any kind without
 * its language, else the whole response.
 */
export function extractProgram(response: string): string {
  const python = response.lastIndexOf('```python')
  if (python >= 0) {
    const start = python + '```python'.length
    const end = response.indexOf('```', start)
    return response.slice(start, end < 0 ? undefined : end)
  }
  const open = response.indexOf('```')
  if (open < 0) return response
  const end = response.indexOf('```', open + 3)
  const block = response.slice(open + 3, end < 0 ? undefined : end)
  const line = block.indexOf('\n')
  const isLanguage = line >= 0 && /^\p{L}+$/u.test(block.slice(0, line).trim())
  return isLanguage ? block.slice(line + 1) : block
}

/**
 * Returns the program followed by code that calls the function, or the method of `Solution`, and prints the result.
 * The arguments are on standard input, one JSON value per line.
 */
function callingProgram(program: string, functionName: string): string {
  return `${program}

def _reward_call(_name):
    import json, sys
    _lines = sys.stdin.read()
    _args = [json.loads(_line) for _line in _lines.split("\\n")] if _lines.strip() else []
    _scope = globals()
    if _name in _scope:
        _function = _scope[_name]
    else:
        _function = getattr(_scope["Solution"](), _name)
    _result = _function(*_args)
    if _result is None or isinstance(_result, (dict, list, tuple, bool)):
        print(json.dumps(_result))
    else:
        print(_result)

if __name__ == "__main__":
    _reward_call("${functionName}")
`
}

/** Limits on concurrent calls, by sandbox URL, shared by the batches of this process. */
const limits = new Map<string, CallLimit>()

function limitOf(url: string): CallLimit {
  const known = limits.get(url)
  if (known !== undefined) return known
  const limit = new CallLimit()
  limits.set(url, limit)
  return limit
}

function pythonText(value: unknown): string {
  if (value === true) return 'True'
  if (value === false) return 'False'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function withoutLastLines(text: string): string {
  let end = text.length
  while (end > 0 && text[end - 1] === '\n') end--
  return text.slice(0, end)
}

const kwargs = z.strictObject({
  sandbox: z
    .string()
    .nullable()
    .default(null)
    .describe(
      'Name of a [sandbox](code-rewards.md#other-sandboxes) in `REWARDOPS_SANDBOXES`; null: the sandbox of the service',
    ),
  sandbox_fusion_url: z
    .url({ protocol: /^https?$/ })
    .nullable()
    .default(null)
    .describe('URL of a sandbox in `REWARDOPS_SANDBOXES`, instead of its name (as in verl)'),
  isolation: z
    .enum(['auto', 'strong', 'weak'])
    .default('auto')
    .describe('[Isolation](code-rewards.md#isolation) of unit tests: `auto`, `strong` or `weak`'),
  max_concurrent: z
    .int()
    .min(1)
    .max(4_096)
    .default(64)
    .describe('Maximum number of concurrent sandbox calls per worker'),
  memory_limit_mb: z
    .int()
    .min(1)
    .max(1_048_576)
    .default(1_024)
    .describe('Memory limit of a program, in MB'),
  timeout: z
    .number()
    .min(0.1)
    .max(600)
    .default(10)
    .describe('Time limit for compilation and for each test case, in seconds'),
  continuous: z
    .boolean()
    .default(true)
    .describe('true: use only the first ten test cases; false: use all'),
  language: z
    .string()
    .default('python')
    .describe('Language of the programs, as the sandbox names it'),
  version: versionOption,
})
type Options = z.output<typeof kwargs>

interface Tested {
  isolation: Isolation
  /** The reason why the isolation is weak, unless weak isolation was requested. */
  isolationReason?: string | null
  cases: CaseOutcome[]
}

type CaseOutcome = Omit<CaseResult, 'status'> & { status: CaseResult['status'] | 'compile_timeout' }

/**
 * Scores programs as verl's `sandbox_fusion` does: by the share of the first ten test cases that pass. A program that
 * does not compile, crashes or times out fails the test case. A sandbox that gives no verdict fails the sample.
 */
export const codeRule = defineAsyncRule({
  name: 'code',
  title: 'Code (in a sandbox)',
  dataSources: ['codecontests', 'apps', 'codeforces', 'taco'],
  docs: {
    verlFile: '`sandbox_fusion/`',
    groundTruth: '[test cases](code-rewards.md#test-cases), as an object or as JSON text',
    score: 'share of the test cases that pass',
    reason: '`7 of 10 passed` (verdict: `all passed`, `some passed` or `none passed`)',
    extraInfo:
      '`acc`, `passed`, `cases`, [`statuses`, `limits`, `failure`](code-rewards.md#test-cases), [`isolation`, `isolation_reason`](code-rewards.md#isolation), `extracted`, `reason`',
  },
  kwargs,
  async score({ solutionStr, groundTruth }, options, context) {
    const given = testCasesOf(groundTruth)
    const program = extractProgram(solutionStr)
    if (given.kind === 'tests') {
      return resultOf(program, await unitTests(program, given, options, context))
    }
    const { inputs, outputs, functionName, asserts } = given
    if (asserts !== null && options.isolation === 'strong') {
      throw new RuleInputError(
        'the asserts of test cases with inputs run in the process of the program only',
        'Set kwargs.isolation to "auto", or send the asserts with null for each input and output.',
      )
    }
    const run = (at: number, signal: AbortSignal): Promise<SandboxOutcome> => {
      const asserted = asserts === null ? program : `${program}\n\n${asserts[at]}`
      const isCalled = functionName !== null && options.language === 'python'
      const code = isCalled ? callingProgram(asserted, functionName) : asserted
      const input = inputs[at]
      const stdin = input === null || input === undefined ? null : pythonText(input)
      return runOne(code, stdin, options, { ...context, signal })
    }
    const cases = await eachCase(countOf(inputs, options), run, context.signal, (stdout, at) => {
      const wanted = outputs[at]
      return (
        wanted === null ||
        wanted === undefined ||
        withoutLastLines(stdout) === withoutLastLines(pythonText(wanted))
      )
    })
    // The program never sees the expected outputs. Asserts are part of the program, so their isolation is weak.
    if (asserts === null) return resultOf(program, { isolation: 'strong', cases })
    const isolationReason =
      options.isolation === 'weak' ? null : 'the test cases have inputs and asserts'
    return resultOf(program, { isolation: 'weak', isolationReason, cases })
  },
})

function countOf(cases: readonly unknown[], { continuous }: Options): number {
  return continuous ? Math.min(COUNTED_CASES, cases.length) : cases.length
}

function resultOf(program: string, { isolation, isolationReason, cases }: Tested): RuleResult {
  const passed = cases.filter(({ status }) => status === 'passed').length
  const score = passed / cases.length
  const extracted = program.slice(0, MAX_EXTRACT_CHARS)
  const reason = `${passed} of ${cases.length} passed`
  const failure = cases.find(({ status }) => status !== 'passed')?.detail
  return {
    score,
    extra: {
      acc: score,
      passed,
      cases: cases.length,
      statuses: cases.map(({ status }) => status),
      limits: cases.map(({ limit }) => limit),
      isolation,
      ...(isolationReason ? { isolation_reason: isolationReason } : {}),
      ...(failure ? { failure: failure.slice(-MAX_FAILURE_CHARS) } : {}),
      extracted,
      reason,
    },
    extracted,
    reason,
    verdict: passed === cases.length ? 'all passed' : passed > 0 ? 'some passed' : 'none passed',
  }
}

/** Runs unit tests. For a sandbox of another project, each test is appended to the program, which is weak isolation. */
async function unitTests(
  program: string,
  { helpers, setup, cases, entryPoint }: UnitTests,
  options: Options,
  context: AsyncRuleContext,
): Promise<Tested> {
  const { isolation, language } = options
  const counted = cases.slice(0, countOf(cases, options))
  const job = {
    ...{ code: program, language, helpers, setup, cases: counted, entry_point: entryPoint },
    ...{ isolation, run_timeout: options.timeout, memory_limit_MB: options.memory_limit_mb },
  }
  const reply = await limited(options, context, () => testInSandbox(job, context))
  if (reply?.status === 'TestsError') {
    throw new RuleInputError(
      `the unit tests cannot be run: ${reply.message}`,
      isolation === 'strong'
        ? 'Correct the tests, or set kwargs.isolation to "auto" if they need objects of the program.'
        : 'Correct groundTruth.',
    )
  }
  if (reply !== null) {
    return {
      isolation: reply.isolation,
      isolationReason: reply.isolation_reason,
      cases: reply.cases,
    }
  }
  if (isolation === 'strong') {
    throw new RuleInputError(
      'the sandbox runs unit tests in the process of the program only',
      'Use the sandbox of the service, or set kwargs.isolation to "auto".',
    )
  }
  // A program that ends the process early does not print the token.
  const token = randomUUID()
  const run = (at: number, signal: AbortSignal) => {
    const parts = [helpers, program, setup, counted[at], `print("\\n${token}")`]
    return runOne(parts.join('\n'), null, options, { ...context, signal })
  }
  const isPassed = (stdout: string) => withoutLastLines(stdout).endsWith(token)
  return {
    isolation: 'weak',
    isolationReason: 'the sandbox has no /run_tests',
    cases: await eachCase(counted.length, run, context.signal, isPassed),
  }
}

function runOne(
  code: string,
  stdin: string | null,
  options: Options,
  context: AsyncRuleContext,
): Promise<SandboxOutcome> {
  const { language, timeout: timeoutS, memory_limit_mb: memoryLimitMb } = options
  const job = { code, language, stdin, timeoutS, memoryLimitMb }
  return limited(options, context, () => runInSandbox(job, context))
}

function limited<T>(
  { max_concurrent: most }: Options,
  { service, signal }: AsyncRuleContext,
  call: () => Promise<T>,
): Promise<T> {
  // The local sandbox gets up to twice as many calls as it has slots, so that it never waits for the next program.
  const atMost = Math.min(most, 2 * (service.slots ?? most))
  return limitOf(service.url).run(call, atMost, signal)
}

/**
 * Starts all test cases; the call limit of the sandbox determines how many run concurrently. The first case without a
 * verdict cancels the others. So does a compile error, which fails all cases.
 */
async function eachCase(
  count: number,
  run: (at: number, signal: AbortSignal) => Promise<SandboxOutcome>,
  signal: AbortSignal | undefined,
  isRight: (stdout: string, at: number) => boolean,
): Promise<CaseOutcome[]> {
  const stop = new AbortController()
  const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal
  let broken: CaseOutcome | null = null
  const outcomes = await Promise.all(
    Array.from({ length: count }, async (_, at) => {
      try {
        const outcome = await run(at, either)
        if (outcome.status === 'compile_error') {
          broken ??= outcome
          stop.abort()
        }
        if (outcome.status !== 'finished') return outcome
        const status = isRight(outcome.stdout, at) ? 'passed' : 'wrong_answer'
        return { status, detail: null, limit: null } as const
      } catch (error) {
        if (broken !== null && !signal?.aborted) return broken
        stop.abort(error)
        throw error
      }
    }),
  )
  return broken === null ? outcomes : outcomes.map(() => broken as CaseOutcome)
}
