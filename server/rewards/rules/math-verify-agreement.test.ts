/**
 * How far `math_verify` agrees with Math-Verify 0.8.0, on every row of the data that has its verdict, and with the
 * published verdicts on GSM8K's solutions. What does not agree is listed in docs/math-verify.md, with who is right;
 * `vitest -u` writes it anew. Skipped where the data is absent.
 */
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { AnswerKind } from './math-verify/candidates.ts'
import { Budget, compareAnswers, extractAnswer, type Verdict } from './math-verify/verify.ts'
import { verifyMath } from './math-verify.ts'

const folder = new URL('../../../../shared/data/', import.meta.url)
const hasData = existsSync(folder)
if (!hasData) console.warn('skipped: no data to compare verdicts with in ../shared/data')

interface Row {
  set: string
  at: string
  gold: string
  response: string
  theirs: boolean
  ours: Verdict
}

/** Who is right where the two differ, by the row's set and place. */
const rulings: Record<string, string> = {
  'math500-groups4 28/0':
    'we: “The final answer is $-2 + 7i.$” gives $-2 + 7i$; the full stop of the sentence keeps theirs from reading it',
  'math500-groups4 53/0':
    'we: “$\\arcsin(-\\frac12) = -\\frac{\\pi}{6}.$” gives $-\\frac{\\pi}{6}$; the full stop again',
}

const wholeFile = (path: string) => readFileSync(new URL(path, folder), 'utf8')
const linesOf = <Line>(path: string) =>
  wholeFile(path)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Line)

/** Rows by column name. The columns used here stand before any field that holds a comma, or after none. */
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
      ours: verifyMath(response, gold, { deadlineMs: 2_000 }),
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

/** Math-Verify's own cases: gold and answer are texts as they are, each LaTeX or plain. */
function caseRows(): (Row & { expected: boolean })[] {
  const kinds: AnswerKind[] = ['latex', 'plain']
  return linesOf<Case>('answer-equivalence/math_verify.jsonl').map((row, at) => {
    const budget = new Budget(2_000)
    const gold = extractAnswer(row.gold, kinds, budget)
    const given = extractAnswer(row.pred, kinds, budget)
    return {
      set: 'math_verify.jsonl',
      at: String(at),
      gold: row.gold,
      response: row.pred,
      theirs: row.math_verify_080_default === 1,
      expected: row.expected === 1,
      ours: compareAnswers(gold, given, budget, { allowSetRelation: false }),
    }
  })
}

const agreed = (rows: readonly Row[]) =>
  rows.filter((row) => row.ours.correct === row.theirs).length

const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

function reportOf(sets: Map<string, Row[]>, expected: number): string {
  const rows = [...sets.values()].flat()
  const counts = [...sets].map(
    ([set, of]) => `| ${set} | ${of.length} | ${agreed(of)} | ${share(agreed(of), of.length)} |`,
  )
  const disagreements = rows
    .filter((row) => row.ours.correct !== row.theirs)
    .map((row) => {
      const { set, at, gold, theirs, ours } = row
      const ruling = rulings[`${set} ${at}`] ?? 'not looked at yet'
      const found = ours.extracted === null ? '—' : `\`${cell(ours.extracted)}\``
      return `| ${set} ${at} | \`${cell(gold.slice(0, 120))}\` | ${found} | ${word(theirs)} | ${word(ours.correct)} (${ours.reason.replaceAll('_', ' ')}) | ${cell(ruling)} |`
    })
  return `# math_verify and Math-Verify 0.8.0

Rule \`math_verify\` ([rewards](rewards.md)) compares answers by value, natively. This page is written by
\`server/rewards/rules/math-verify-agreement.test.ts\` from what both say on the same rows.

| rows | compared | agree | share |
|---|---|---|---|
${counts.join('\n')}
| all | ${rows.length} | ${agreed(rows)} | ${share(agreed(rows), rows.length)} |

Of Math-Verify's own 191 cases, ${expected} are as its tests expect them, with the options at their defaults; the others are
as the program itself answers then. GSM8K's 5,276 published solutions: no disagreement with \`is_correct\`.

## Where they differ

| row | ground truth | answer | theirs | ours | who is right, and why |
|---|---|---|---|---|---|
${disagreements.join('\n')}

## What is different on purpose

Found by comparing every pair of 263 ways to write an answer, 69,169 pairs, of which Math-Verify calls 1,036 equal.

| answers | theirs | ours | why |
|---|---|---|---|
| \`1\\,024\` and \`1024\`; \`1 000\` and \`1000\` | different (25; 0) | equal | two numbers side by side are digits in groups of three; theirs adds or multiplies them |
| \`2(3)\` and \`6\` | different (5) | equal | theirs reads 2(3) as the mixed number 2 + 3/1 |
| \`0.\\overline{3}\` and \`\\frac13\` | different | equal | a period is a number |
| \`e^{i\\pi}\` and \`-1\`; \`\\sqrt{-1}\` and \`i\` | different | equal | \`i\` is the imaginary unit; theirs takes it for a name |
| \`\\emptyset\` and \`\\varnothing\` | different | equal | one sign in two shapes |
| \`5.\` in LaTeX | not read | \`5\` | a full stop ends the sentence, not the number |
| \`x^2 - 1 = 0\` and \`\\{-1, 1\\}\`; \`\\|x\\| \\le 1\` and \`[-1, 1]\` | equal | different | equations and inequalities are not solved, only compared with each other; a condition on a symbol alone (\`1 < x \\le 2\`) is a set |
| integrals, limits, sums with bounds | read | not read | compared as text |
| more than 65,536 characters after the answer, answers of more than 2,000 characters, numbers of more than 16,384 bits, 64 groups deep | read, for up to 5 s | not compared (\`too large\`) | nothing may block the event loop; equal texts are still equal |
`
}

const word = (correct: boolean) => (correct ? 'right' : 'wrong')
const share = (part: number, all: number) => `${((part / all) * 100).toFixed(2)} %`

describe.skipIf(!hasData)('agreement with Math-Verify 0.8.0', () => {
  const sets = new Map<string, Row[]>()

  test.for<[set: string, file: string, column: string, rows: number]>([
    ['gsm8k-groups8', 'groups.first200.jsonl', 'math_verify_0.8.0', 1_600],
    ['math500-groups4', 'groups.first100.jsonl', 'math_verify_0.8.0', 400],
    ['qwen-math-rm8', 'groups.first20.jsonl', 'math_verify_0.8.0_vs_answer', 160],
  ])('%s: 98 of 100 rows at least', ([set, file, column, count]) => {
    const rows = groupRows(set, file, column)
    sets.set(set, rows)
    expect(rows).toHaveLength(count)
    expect(agreed(rows)).toBeGreaterThanOrEqual(count * 0.98)
  })

  test('its own 191 cases: 95 of 100 at least', () => {
    const rows = caseRows()
    sets.set('math_verify.jsonl', rows)
    expect(rows).toHaveLength(191)
    expect(agreed(rows)).toBeGreaterThanOrEqual(191 * 0.95)
    const expected = rows.filter((row) => row.ours.correct === row.expected).length
    expect(expected).toBeGreaterThanOrEqual(191 * 0.95)
  })

  test('the report lists every disagreement, and each has been looked at', async () => {
    const expected = caseRows().filter((row) => row.ours.correct === row.expected).length
    const report = reportOf(sets, expected)
    expect(report).not.toContain('not looked at yet')
    await expect(report).toMatchFileSnapshot('../../../docs/math-verify.md')
  })

  test("OpenAI's 5,276 GSM8K solutions: as published, every one", () => {
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
        if (verifyMath(solution, gold).correct !== is_correct) differ.push(`${at} ${model}`)
      }
    }
    expect(compared).toBe(5_276)
    expect(differ).toEqual([])
  })
})
