import { isRecord, RuleInputError, typeInWords } from './rule.ts'

const HINT = [
  'Rule code needs groundTruth as {"inputs": ["1 2"], "outputs": ["3"]},',
  '{"test": "def check(candidate): …", "entry_point": "add", "prompt": "…"} (HumanEval)',
  'or {"test_list": ["assert add(1, 2) == 3"]} (MBPP), or as one of these in JSON text.',
].join(' ')

/** Test cases of a program that reads standard input and writes standard output, or of a function. */
interface StdioCases {
  kind: 'stdio'
  inputs: unknown[]
  outputs: unknown[]
  functionName: string | null
  /** Asserts to append to the program, one for each input. */
  asserts: string[] | null
}

export interface UnitTests {
  kind: 'tests'
  /** Definitions that precede the program and are also available to the tests. */
  helpers: string
  setup: string
  cases: string[]
  /** The function that the tests call, or null for all functions that they call and do not define. */
  entryPoint: string | null
}

/** @throws RuleInputError */
export function testCasesOf(groundTruth: unknown): StdioCases | UnitTests {
  let truth = groundTruth
  if (typeof truth === 'string') {
    try {
      truth = JSON.parse(truth)
    } catch {
      throw new RuleInputError('groundTruth is text, but not JSON', HINT)
    }
  }
  if (!isRecord(truth)) {
    throw new RuleInputError(
      `groundTruth is ${typeInWords(truth)}, rule code needs test cases`,
      HINT,
    )
  }
  if (truth.test !== undefined) return checkFunction(truth)
  return truth.test_list === undefined ? stdioCases(truth) : testList(truth)
}

/** HumanEval: the test defines `check`, which is called with the program's function. */
function checkFunction(truth: Record<string, unknown>): UnitTests {
  const setup = textOf(truth, 'test')
  const entryPoint = nameOf(truth, 'entry_point')
  if (entryPoint === null) throw new RuleInputError('groundTruth.entry_point is missing', HINT)
  if (!/^def check\s*\(/m.test(setup)) {
    throw new RuleInputError('groundTruth.test does not define check(candidate)', HINT)
  }
  const helpers = textOf(truth, 'prompt', '')
  return { kind: 'tests', helpers, setup, cases: [`check(${entryPoint})`], entryPoint }
}

/** MBPP: a list of asserts. */
function testList(truth: Record<string, unknown>): UnitTests {
  const cases = textsOf(truth, 'test_list')
  if (cases.length === 0) throw new RuleInputError('groundTruth has no test case', HINT)
  return {
    kind: 'tests',
    helpers: [...textsOf(truth, 'test_imports', []), textOf(truth, 'test_setup_code', '')].join(
      '\n',
    ),
    setup: '',
    cases,
    entryPoint: nameOf(truth, 'entry_point'),
  }
}

function stdioCases(truth: Record<string, unknown>): StdioCases | UnitTests {
  const { inputs, outputs, assert_case: asserts } = truth
  if (!Array.isArray(inputs) || !Array.isArray(outputs)) {
    throw new RuleInputError('groundTruth holds no lists "inputs" and "outputs"', HINT)
  }
  if (inputs.length !== outputs.length) {
    throw new RuleInputError(
      `groundTruth has ${inputs.length} inputs and ${outputs.length} outputs`,
      HINT,
    )
  }
  // Without test cases, verl scores every program 0. Here, the sample fails with an error that names the cause.
  if (inputs.length === 0) throw new RuleInputError('groundTruth has no test case', HINT)
  const functionName = nameOf(truth, 'fn_name')
  if (asserts === undefined || asserts === null) {
    return { kind: 'stdio', inputs, outputs, functionName, asserts: null }
  }
  const isFit = Array.isArray(asserts) && asserts.length === inputs.length
  if (!isFit || asserts.some((one) => typeof one !== 'string')) {
    throw new RuleInputError('groundTruth.assert_case is not one text for each input', HINT)
  }
  const isBare = [...inputs, ...outputs].every((one) => one === null)
  return isBare && functionName === null
    ? { kind: 'tests', helpers: '', setup: '', cases: asserts, entryPoint: null }
    : { kind: 'stdio', inputs, outputs, functionName, asserts }
}

function textOf(truth: Record<string, unknown>, key: string, fallback?: string): string {
  const value = truth[key] ?? fallback
  if (typeof value === 'string') return value
  throw new RuleInputError(`groundTruth.${key} is ${typeInWords(value)}, not text`, HINT)
}

function textsOf(truth: Record<string, unknown>, key: string, fallback?: string[]): string[] {
  const value = truth[key] ?? fallback
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value
  throw new RuleInputError(`groundTruth.${key} is not a list of texts`, HINT)
}

function nameOf(truth: Record<string, unknown>, key: string): string | null {
  const value = truth[key] ?? null
  if (value === null || (typeof value === 'string' && /^[A-Za-z_]\w*$/.test(value))) return value
  throw new RuleInputError(`groundTruth.${key} is not a function name`, HINT)
}
