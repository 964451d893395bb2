import { z } from 'zod'
import { CallLimit } from '../../call-limit.ts'
import { defineAsyncRule } from './async-rule.ts'
import { isRecord, RuleInputError, typeInWords, versionOption } from './rule.ts'
import { runInSandbox, type SandboxOutcome } from './sandbox-fusion.ts'

/** Number of test cases that count with `continuous`, as in upstream. */
const COUNTED_CASES = 10

/** Maximum characters of a program that are stored with its score. */
const MAX_EXTRACT_CHARS = 2_000

const hint =
  'Rule code needs groundTruth as {"inputs": ["1 2"], "outputs": ["3"]}, or as that object in JSON text.'

interface TestCases {
  inputs: unknown[]
  outputs: unknown[]
  functionName: string | null
  asserts: string[] | null
}

/**
 * The program in a response: the last ```` ```python ```` block, else the first block of any kind without its
 * language, else the whole response.
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

function testCasesOf(groundTruth: unknown): TestCases {
  let truth = groundTruth
  if (typeof truth === 'string') {
    try {
      truth = JSON.parse(truth)
    } catch {
      throw new RuleInputError('groundTruth is text, but not JSON', hint)
    }
  }
  if (!isRecord(truth)) {
    throw new RuleInputError(
      `groundTruth is ${typeInWords(truth)}, rule code needs test cases`,
      hint,
    )
  }
  const { inputs, outputs, fn_name: functionName, assert_case: asserts } = truth
  if (!Array.isArray(inputs) || !Array.isArray(outputs)) {
    throw new RuleInputError('groundTruth holds no lists "inputs" and "outputs"', hint)
  }
  if (inputs.length !== outputs.length) {
    throw new RuleInputError(
      `groundTruth has ${inputs.length} inputs and ${outputs.length} outputs`,
      hint,
    )
  }
  // Upstream scores every program 0 without test cases.
  if (inputs.length === 0) throw new RuleInputError('groundTruth has no test case', hint)
  const isName = typeof functionName === 'string' && /^[A-Za-z_]\w*$/.test(functionName)
  if (functionName !== undefined && functionName !== null && !isName) {
    throw new RuleInputError('groundTruth.fn_name is not a function name', hint)
  }
  if (asserts !== undefined && asserts !== null) {
    const isFit = Array.isArray(asserts) && asserts.length === inputs.length
    if (!isFit || asserts.some((one) => typeof one !== 'string')) {
      throw new RuleInputError('groundTruth.assert_case is not one text for each input', hint)
    }
  }
  return {
    inputs,
    outputs,
    functionName: isName ? functionName : null,
    asserts: (asserts as string[] | null | undefined) ?? null,
  }
}

/**
 * The program, extended by code that calls the function, or the method of `Solution`, with the arguments on standard
 * input, one JSON value per line, and prints the result.
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

/** The limits of concurrent calls by sandbox URL, shared by the batches of this process. */
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

/**
 * Scores programs like upstream's `sandbox_fusion`: the share of the first ten test cases that pass. A program that
 * does not compile, crashes or times out fails the test case. A sandbox that gives no verdict fails the sample.
 */
export const codeRule = defineAsyncRule({
  name: 'code',
  title: 'Code (in a sandbox)',
  dataSources: ['codecontests', 'apps', 'codeforces', 'taco'],
  kwargs: z.strictObject({
    sandbox_fusion_url: z
      .url({ protocol: /^https?$/ })
      .nullable()
      .default(null)
      .describe('Sandbox URL, such as http://host:8080/run_code'),
    max_concurrent: z
      .int()
      .min(1)
      .max(4_096)
      .default(64)
      .describe('Maximum concurrent sandbox requests per process'),
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
      .describe('Time limit for compilation and for execution, each in seconds'),
    continuous: z
      .boolean()
      .default(true)
      .describe('Use only the first ten test cases; otherwise all'),
    language: z
      .string()
      .default('python')
      .describe('Language of the programs, as named by the sandbox'),
    version: versionOption,
  }),
  async score({ solutionStr, groundTruth }, options, context) {
    const { inputs, outputs, functionName, asserts } = testCasesOf(groundTruth)
    const url = options.sandbox_fusion_url
    if (url === null) {
      throw new RuleInputError(
        'rule code has no sandbox',
        'Set kwargs.sandbox_fusion_url to the address of a SandboxFusion service, with /run_code.',
      )
    }
    const program = extractProgram(solutionStr)
    const limit = limitOf(url)
    const count = options.continuous ? Math.min(COUNTED_CASES, inputs.length) : inputs.length
    const run = (at: number, signal: AbortSignal): Promise<SandboxOutcome> => {
      const asserted = asserts === null ? program : `${program}\n\n${asserts[at]}`
      const isCalled = functionName !== null && options.language === 'python'
      const input = inputs[at]
      const job = {
        code: isCalled ? callingProgram(asserted, functionName) : asserted,
        language: options.language,
        stdin: input === null || input === undefined ? null : pythonText(input),
        timeoutS: options.timeout,
        memoryLimitMb: options.memory_limit_mb,
      }
      return limit.run(
        () => runInSandbox(url, job, { ...context, signal }),
        options.max_concurrent,
        signal,
      )
    }
    const statuses = await eachCase(count, run, context.signal, (outcome, at) => {
      if (outcome.status !== 'finished') return outcome.status
      const wanted = outputs[at]
      const isRight =
        wanted === null ||
        wanted === undefined ||
        withoutLastLines(outcome.stdout) === withoutLastLines(pythonText(wanted))
      return isRight ? 'passed' : 'wrong_answer'
    })
    const passed = statuses.filter((status) => status === 'passed').length
    const score = passed / count
    const reason = `${passed} of ${count} passed`
    const extracted = program.slice(0, MAX_EXTRACT_CHARS)
    const extra = { acc: score, passed, cases: count, statuses, extracted, reason }
    const verdict = passed === count ? 'all passed' : passed > 0 ? 'some passed' : 'none passed'
    return { score, extra, extracted, reason, verdict }
  },
})

/**
 * Starts all test cases; the sandbox's limit bounds the concurrent ones. The first one without a verdict ends the
 * others. So does a compile error, which fails all of them.
 */
async function eachCase(
  count: number,
  run: (at: number, signal: AbortSignal) => Promise<SandboxOutcome>,
  signal: AbortSignal | undefined,
  judge: (outcome: SandboxOutcome, at: number) => string,
): Promise<string[]> {
  const stop = new AbortController()
  const either = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal
  let broken: string | null = null
  const statuses = await Promise.all(
    Array.from({ length: count }, async (_, at) => {
      try {
        const outcome = await run(at, either)
        if (outcome.status === 'compile_error') {
          broken ??= outcome.status
          stop.abort()
        }
        return judge(outcome, at)
      } catch (error) {
        if (broken !== null && !signal?.aborted) return broken
        stop.abort(error)
        throw error
      }
    }),
  )
  return broken === null ? statuses : statuses.map(() => broken as string)
}
