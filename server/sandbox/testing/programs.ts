import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RunTestsReply, RunTestsRequest } from '../../contract/sandbox.ts'
import { findPython } from '../python-home.ts'
import { PythonRuns, type PythonRunsOptions } from '../python-runs.ts'
import { runTests } from '../run-tests.ts'

/** The interpreter for tests. If none is usable, the tests print the reason and are skipped. */
export const python = await findPython(null)
if (!python.ok) console.warn(`vitest: the sandbox is not tested. ${python.reason} ${python.remedy}`)

/** Creates a `PythonRuns` for tests. `idle`: number of forks that wait for a job. */
export const testRuns = (idle = 2): PythonRuns => new PythonRuns(testOptions(idle))

/** Options of `PythonRuns` in tests. `warn` gets the fields of each warning and error. */
export function testOptions(
  idle: number,
  warn: (fields: object) => void = console.warn,
): PythonRunsOptions {
  if (!python.ok) throw new Error(python.reason)
  const { python: path, binds } = python
  const folder = mkdtempSync(join(tmpdir(), 'rewardops-code-'))
  return { folder, python: path, binds, idle, log: { warn, error: warn } as never }
}

export async function judged(
  runs: PythonRuns,
  request: Partial<RunTestsRequest> & Pick<RunTestsRequest, 'code' | 'cases'>,
): Promise<RunTestsReply> {
  const parsed = RunTestsRequest.parse({ language: 'python', run_timeout: 5, ...request })
  return RunTestsReply.parse(await runTests(parsed, runs, new AbortController().signal))
}

export function hasPassed(reply: RunTestsReply): boolean {
  return reply.status === 'Success' && reply.cases.every(({ status }) => status === 'passed')
}

export interface HumanEvalProblem {
  task_id: string
  prompt: string
  entry_point: string
  canonical_solution: string
  test: string
}

const HUMAN_EVAL = join(import.meta.dirname, '../../../../shared/data/humaneval/HumanEval.jsonl')

/** HumanEval's problems; null if their file, which is not part of the repository, is missing. */
export function humanEval(): HumanEvalProblem[] | null {
  if (!existsSync(HUMAN_EVAL)) return null
  const lines = readFileSync(HUMAN_EVAL, 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line) as HumanEvalProblem)
}

export const testsOf = ({ prompt, entry_point, test }: HumanEvalProblem) => ({
  ...{ helpers: prompt, setup: test, cases: [`check(${entry_point})`], entry_point },
})

/** A solution that returns changed results, so that every test of a result fails. */
export const brokenSolutionOf = ({
  canonical_solution,
  entry_point,
}: HumanEvalProblem) => `${canonical_solution}
_right = ${entry_point}
def ${entry_point}(*arguments, **keywords):
    result = _right(*arguments, **keywords)
    if isinstance(result, bool): return not result
    if isinstance(result, (int, float)): return result + 1
    if isinstance(result, str): return result + "?"
    if isinstance(result, (list, tuple)): return type(result)([*result, "?"])
    if isinstance(result, dict): return {**result, "?": 1}
    return 1 if result is None else None
`
