/**
 * Compares the port with Math-Verify 0.8.0 on recorded verdicts and with the published verdicts on GSM8K's solutions.
 * `vitest -u` writes agreement.md, which lists each disagreement. The tests are skipped without the data.
 */
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import {
  type AnswerKind,
  Budget,
  parse,
  type Verdict,
  verify,
  verifyResponse,
} from '../src/index.ts'

const folder = new URL('../../../../shared/data/', import.meta.url)
const hasData = existsSync(folder)
if (!hasData) console.warn('skipped: ../shared/data has no verdicts to compare with')

interface Row {
  set: string
  at: string
  gold: string
  response: string
  theirs: boolean
  ours: Verdict
}

/** Which side is right in each disagreement, and why, by the row's `set` and `at`. */
const rulings: Record<string, string> = {
  'math500-groups4 28/0': 'the port: Math-Verify fails on the full stop',
  'math500-groups4 53/0': 'the port: Math-Verify fails on the full stop',
}

const wholeFile = (path: string) => readFileSync(new URL(path, folder), 'utf8')
const linesOf = <Line>(path: string) =>
  wholeFile(path)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)

function csvOf(path: string): Record<string, string>[] {
  const fields = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/g
  const rows: string[][] = [[]]
  for (const [whole, field = '', end] of wholeFile(path).matchAll(fields)) {
    if (whole === '') break
    rows.at(-1)!.push(field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field)
    if (end !== ',') rows.push([])
  }
  const [header = [], ...body] = rows.filter((row) => row.length > 0)
  return body.map((row) => Object.fromEntries(header.map((name, at) => [name, row[at] ?? ''])))
}

interface Group {
  ground_truth?: string
  answer?: string
  responses?: { response: string }[]
  code?: string[]
}

function groupRows(set: string, file: string, column: string): Row[] {
  const groups = linesOf<Group>(`${set}/${file}`)
  return csvOf(`${set}/verdicts.csv`).map((row) => {
    const group = groups[Number(row.idx)]!
    const gold = (group.answer ?? group.ground_truth) as string
    const at = Number(row.k)
    const response = (group.code?.[at] ?? group.responses?.[at]?.response) as string
    const theirs = Number(row[column]) === 1
    return {
      set,
      at: `${row.idx}/${row.k}`,
      gold,
      response,
      theirs,
      ours: verifyResponse(response, gold, { deadlineMs: 2_000 }),
    }
  })
}

interface Case {
  id: string
  gold: string
  pred: string
  expected: number
  math_verify_080_default: number
}

function caseRows(): (Row & { expected: boolean })[] {
  const kinds: AnswerKind[] = ['latex', 'plain']
  return linesOf<Case>('answer-equivalence/math_verify.jsonl').map((row, at) => {
    const budget = new Budget(2_000)
    const gold = parse(row.gold, kinds, budget)
    const given = parse(row.pred, kinds, budget)
    return {
      set: 'math_verify.jsonl',
      at: String(at),
      gold: row.gold,
      response: row.pred,
      theirs: row.math_verify_080_default === 1,
      expected: row.expected === 1,
      ours: verify(gold, given, budget),
    }
  })
}

const agreed = (rows: readonly Row[]) =>
  rows.filter((row) => row.ours.correct === row.theirs).length

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

function reportOf(sets: Map<string, Row[]>, expected: number): string {
  const rows = [...sets.values()].flat()
  const counts = [...sets].map(([set, of]) => `| ${set} | ${of.length} | ${agreed(of)} |`)
  const disagreements = rows
    .filter((row) => row.ours.correct !== row.theirs)
    .map((row) => {
      const { set, at, gold, theirs, ours } = row
      const ruling = rulings[`${set} ${at}`] ?? 'not reviewed'
      const found = ours.extracted === null ? '—' : `\`${cell(ours.extracted)}\``
      return `| ${set} ${at} | \`${cell(gold.slice(0, 120))}\` | ${found} | ${word(theirs)} | ${word(ours.correct)} (${ours.reason.replaceAll('_', ' ')}) | ${cell(ruling)} |`
    })
  return `# Agreement with Math-Verify 0.8.0

This page compares the verdicts of Math-Verify 0.8.0 and of this package (the *port*).

| data set | responses | same verdict |
|---|---|---|
${counts.join('\n')}
| all | ${rows.length} | ${agreed(rows)} |

For ${expected} of the 191 cases in Math-Verify's own tests (\`math_verify.jsonl\`), both programs give the expected
verdict. On GSM8K's 5,276 published solutions, every verdict of the port matches the published \`is_correct\`.

## Disagreements

| response | ground truth | answer in the response | Math-Verify | port | which is right |
|---|---|---|---|---|---|
${disagreements.join('\n')}

## Intended differences

| answers | Math-Verify | port | reason |
|---|---|---|---|
| \`1\\,024\` and \`1024\`; \`1 000\` and \`1000\` | different | equal | digits in groups of three are one number |
| \`2(3)\` and \`6\` | different | equal | \`2(3)\` is a product, not a mixed number |
| \`0.\\overline{3}\` and \`\\frac13\` | different | equal | a repeating decimal is a number |
| \`e^{i\\pi}\` and \`-1\`; \`\\sqrt{-1}\` and \`i\` | different | equal | \`i\` is the imaginary unit |
| \`\\emptyset\` and \`\\varnothing\` | different | equal | both are symbols of the empty set |
| \`5.\` in LaTeX | not read | \`5\` | the full stop ends the sentence |
| \`x^2 - 1 = 0\` and \`\\{-1, 1\\}\`; \`\\|x\\| \\le 1\` and \`[-1, 1]\` | equal | different | equations and inequalities are not solved |
| integrals, limits, sums with bounds | read | compared as text | not supported |
| answers beyond the [limits](README.md#limits) | read, for up to 5 s | compared as text | the event loop must not block |
`
}

const word = (correct: boolean) => (correct ? 'correct' : 'incorrect')

describe.skipIf(!hasData)('agreement with Math-Verify 0.8.0', () => {
  const sets = new Map<string, Row[]>()

  test.for<[set: string, file: string, column: string, rows: number]>([
    ['gsm8k-groups8', 'groups.first200.jsonl', 'math_verify_0.8.0', 1_600],
    ['math500-groups4', 'groups.first100.jsonl', 'math_verify_0.8.0', 400],
    ['qwen-math-rm8', 'groups.first20.jsonl', 'math_verify_0.8.0_vs_answer', 160],
  ])('%s: at least 98 % of the rows agree', ([set, file, column, count]) => {
    const rows = groupRows(set, file, column)
    sets.set(set, rows)
    expect(rows).toHaveLength(count)
    expect(agreed(rows)).toBeGreaterThanOrEqual(count * 0.98)
  })

  test('at least 95 % of the 191 cases of Math-Verify agree', () => {
    const rows = caseRows()
    sets.set('math_verify.jsonl', rows)
    expect(rows).toHaveLength(191)
    expect(agreed(rows)).toBeGreaterThanOrEqual(191 * 0.95)
    const expected = rows.filter((row) => row.ours.correct === row.expected).length
    expect(expected).toBeGreaterThanOrEqual(191 * 0.95)
  })

  test('the report lists every disagreement, and each is reviewed', async () => {
    const expected = caseRows().filter((row) => row.ours.correct === row.expected).length
    const report = reportOf(sets, expected)
    expect(report).not.toContain('not reviewed')
    await expect(report).toMatchFileSnapshot('../agreement.md')
  })

  test("all verdicts on OpenAI's 5,276 GSM8K solutions are as published", () => {
    type Solutions = Record<string, { is_correct: boolean; solution: string }> & {
      ground_truth: string
    }
    const models = ['6b_finetuning', '6b_verification', '175b_finetuning', '175b_verification']
    const differ: string[] = []
    let compared = 0
    for (const [at, row] of linesOf<Solutions>('gsm8k/example_model_solutions.jsonl').entries()) {
      const gold = row.ground_truth.slice(row.ground_truth.lastIndexOf('A: ') + 3).trim()
      for (const model of models) {
        const { is_correct, solution } = row[model]!
        compared++
        if (verifyResponse(solution, gold).correct !== is_correct) differ.push(`${at} ${model}`)
      }
    }
    expect(compared).toBe(5_276)
    expect(differ).toEqual([])
  })
})
