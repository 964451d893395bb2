/**
 * Compares verdicts with verl's, on the golden vectors and on real responses. The data is not part of this
 * repository; without it these tests are skipped, and `rules.test.ts` still runs.
 */
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { extractGsm8kAnswer } from './gsm8k.ts'
import { lastBoxedExpression } from './math-boxed.ts'
import { isMathEquivalent, normalizeMath } from './math-equivalence.ts'
import { overlongPenalty } from './overlong-penalty.ts'
import { ruleForDataSource } from './registry.ts'
import type { RuleResult } from './rule.ts'
import { extractTaggedAnswer, normalizeQaAnswer } from './search-r1.ts'

const folder = new URL('../../../../shared/data/', import.meta.url)
const hasData = existsSync(folder)
if (!hasData) console.warn('skipped: ../shared/data has no verdicts to compare with')

function read(path: string): string {
  return readFileSync(new URL(path, folder), 'utf8')
}

function readLines<Row>(path: string): Row[] {
  return read(path)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row)
}

function readCsv(path: string): Record<string, string>[] {
  const fields = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r?\n|$)/g
  const rows: string[][] = [[]]
  for (const [whole, field = '', end] of read(path).matchAll(fields)) {
    if (whole === '') break
    rows.at(-1)!.push(field.startsWith('"') ? field.slice(1, -1).replaceAll('""', '"') : field)
    if (end !== ',') rows.push([])
  }
  const [header = [], ...body] = rows.filter((row) => row.length > 0)
  return body.map((row) => Object.fromEntries(header.map((name, at) => [name, row[at] ?? ''])))
}

function score(
  dataSource: string,
  solutionStr: string,
  groundTruth: unknown,
  kwargs: Record<string, unknown> = {},
): RuleResult {
  const input = { dataSource, solutionStr, groundTruth, extraInfo: {}, kwargs }
  return ruleForDataSource(dataSource)!.score(input)
}

const gsm8k = 'openai/gsm8k'
const math = 'HuggingFaceH4/MATH-500'
const search = 'searchR1_nq'
const flexible = { method: 'flexible' }

interface DapoVerdict {
  score: number
  acc: boolean
  pred: string | null
}

/** A golden case. Its keys differ by scorer; every key of a case is compared. */
interface GoldenCase {
  fn?: string
  solution: string
  ground_truth: string
  target: string[]
  score: number
  extract_strict: string | null
  extract_flexible: string | null
  score_strict: number
  score_flexible: number
  score_format01: number
  last_boxed: string | null
  v2026_01: DapoVerdict
  main_2026_08: DapoVerdict
  strict_box: DapoVerdict
  extracted: string | null
  em: number
  subem: number
  normalized: string
  strict: string | null
  flexible: string | null
}

const golden = hasData
  ? (JSON.parse(read('golden/verl_scorers.json')) as Record<string, GoldenCase[]>)
  : {}

function ours(scorer: string, given: GoldenCase): Partial<Record<keyof GoldenCase, unknown>> {
  const { solution, ground_truth: truth } = given
  if (scorer === 'gsm8k') {
    return {
      extract_strict: extractGsm8kAnswer(solution, 'strict'),
      extract_flexible: extractGsm8kAnswer(solution, 'flexible'),
      strict: extractGsm8kAnswer(solution, 'strict'),
      flexible: extractGsm8kAnswer(solution, 'flexible'),
      score: score(gsm8k, solution, truth).score,
      score_strict: score(gsm8k, solution, truth).score,
      score_flexible: score(gsm8k, solution, truth, flexible).score,
      score_format01: score(gsm8k, solution, truth, { format_score: 0.1 }).score,
    }
  }
  if (scorer === 'math_reward') {
    return {
      last_boxed: lastBoxedExpression(solution),
      score: score(math, solution, truth).score,
    }
  }
  if (scorer === 'math_dapo') {
    return {
      v2026_01: score('math_dapo', solution, truth).extra,
      main_2026_08: score('math_dapo', solution, truth, { version: '2026-08' }).extra,
      strict_box: score('math_dapo', solution, truth, { strict_box_verify: true }).extra,
    }
  }
  if (scorer === 'search_r1') {
    const extracted = extractTaggedAnswer(solution)
    return {
      extracted,
      normalized: extracted === null ? null : normalizeQaAnswer(extracted),
      em: score(search, solution, { target: given.target }).score,
      subem: score(search, solution, { target: given.target }, { method: 'subem' }).score,
    }
  }
  throw new Error(`no scorer ${scorer}`)
}

const inputKeys = ['fn', 'note', 'solution', 'ground_truth', 'target']

function expectSameVerdict(scorer: string, given: GoldenCase): void {
  const wanted = Object.fromEntries(
    Object.entries(given).filter(([key]) => !inputKeys.includes(key)),
  )
  const keys = Object.keys(wanted)
  const verdict = Object.entries(ours(scorer, given)).filter(([key]) => keys.includes(key))
  expect(Object.fromEntries(verdict), JSON.stringify(given)).toEqual(wanted)
}

describe.skipIf(!hasData)('golden vectors', () => {
  test('the file holds exactly the scorers of this test', () => {
    const counts = Object.entries(golden).map(([name, cases]) => [name, cases.length])
    expect(Object.fromEntries(counts)).toEqual({
      gsm8k: 16,
      math_reward: 21,
      math_reward_strip_string: 12,
      math_dapo: 22,
      search_r1: 9,
      dapo_overlong: 4,
      porting_traps: 16,
    })
  })

  test.for(['gsm8k', 'math_reward', 'math_dapo', 'search_r1'])('%s', (scorer) => {
    for (const given of golden[scorer]!) expectSameVerdict(scorer, given)
  })

  test('porting traps', () => {
    for (const given of golden.porting_traps!) expectSameVerdict(given.fn!, given)
  })

  test('math_reward strip_string', () => {
    const pairs = golden.math_reward_strip_string as unknown as { a: string; b: string }[]
    for (const { a, b } of pairs) expect(normalizeMath(a), a).toBe(b)
  })

  test("MATH's own tests of equivalence", () => {
    const rows = readLines<{ id: string; a: string; b: string; verl_math_reward_is_equiv: number }>(
      'answer-equivalence/hendrycks_math_is_equiv.jsonl',
    )
    expect(rows).toHaveLength(16)
    for (const { id, a, b, verl_math_reward_is_equiv: wanted } of rows) {
      expect(isMathEquivalent(a, b), id).toBe(wanted === 1)
    }
  })

  test('DAPO overlong penalty', () => {
    for (const given of golden.dapo_overlong as unknown as Record<string, number | boolean>[]) {
      const penalty = overlongPenalty({
        validResponseLength: Number(given.valid_response_length),
        maxResponseLength: Number(given.max_resp_len),
        bufferLength: Number(given.overlong_buffer_len),
        penaltyFactor: Number(given.penalty_factor),
      })
      expect(penalty).toEqual({ penalty: given.penalty, overlong: given.overlong })
    }
  })
})

interface GroupsRow {
  ground_truth: string
  responses: { response: string }[]
}

describe.skipIf(!hasData)('real responses, row by row', () => {
  test('gsm8k-groups8: strict and flexible', () => {
    const groups = readLines<GroupsRow>('gsm8k-groups8/groups.first200.jsonl')
    const rows = readCsv('gsm8k-groups8/verdicts.csv')
    expect(rows).toHaveLength(1600)
    for (const row of rows) {
      const { ground_truth: truth, responses } = groups[Number(row.idx)]!
      const { response } = responses[Number(row.k)]!
      const at = `row ${row.idx}/${row.k}`
      const strict = score(gsm8k, response, truth)
      expect(strict.score, at).toBe(Number(row.verl_gsm8k_strict))
      expect(strict.extra).toEqual({ acc: strict.score })
      const flexibly = score(gsm8k, response, truth, flexible)
      expect(flexibly.score, at).toBe(Number(row.verl_gsm8k_flexible))
    }
  })

  test('math500-groups4: boxed and DAPO, with the extracted answer', () => {
    const groups = readLines<GroupsRow>('math500-groups4/groups.first100.jsonl')
    const rows = readCsv('math500-groups4/verdicts.csv')
    expect(rows).toHaveLength(400)
    for (const row of rows) {
      const { ground_truth: truth, responses } = groups[Number(row.idx)]!
      const { response } = responses[Number(row.k)]!
      const at = `row ${row.idx}/${row.k}`
      expect(score(math, response, truth).score, at).toBe(Number(row.verl_math_reward))
      const dapo = score('math_dapo', response, truth)
      expect(dapo.score, at).toBe(Number(row.verl_math_dapo_score))
      expect(dapo.extra.pred, at).toBe(row.verl_math_dapo_pred)
    }
  })

  test('qwen-math-rm8: boxed and DAPO', () => {
    const groups = readLines<{ answer: string; code: string[] }>(
      'qwen-math-rm8/groups.first20.jsonl',
    )
    const rows = readCsv('qwen-math-rm8/verdicts.csv')
    expect(rows).toHaveLength(160)
    for (const row of rows) {
      const { answer, code } = groups[Number(row.idx)]!
      const response = code[Number(row.k)]!
      const at = `row ${row.idx}/${row.k}`
      expect(score(math, response, answer).score, at).toBe(Number(row.verl_math_reward_vs_answer))
      const dapo = score('math_dapo', response, answer)
      expect(dapo.score, at).toBe(Number(row.verl_math_dapo_score_vs_answer))
    }
  })

  test("OpenAI's 5,276 GSM8K solutions, their answer lines in the form of verl's rule", () => {
    const models = ['6b_finetuning', '6b_verification', '175b_finetuning', '175b_verification']
    type Row = Record<string, { is_correct: boolean; solution: string }> & {
      ground_truth: string
    }
    const rows = readLines<Row>('gsm8k/example_model_solutions.jsonl')
    const answerOf = (text: string) => text.slice(text.lastIndexOf('A: ') + 3).trim()
    const asMarked = (text: string) => text.replaceAll(/^A: /gm, '#### ')
    const count = { raw: 0, allRight: 0, noneRight: 0 }
    const right = { strict: [0, 0, 0, 0], flexible: [0, 0, 0, 0], published: [0, 0, 0, 0] }
    for (const row of rows) {
      const truth = answerOf(row.ground_truth).replaceAll(',', '')
      const verdicts = models.map((model) => score(gsm8k, asMarked(row[model]!.solution), truth))
      for (const [at, model] of models.entries()) {
        const { solution, is_correct } = row[model]!
        right.strict[at]! += verdicts[at]!.score
        right.flexible[at]! += score(gsm8k, asMarked(solution), truth, flexible).score
        right.published[at]! += is_correct ? 1 : 0
        count.raw += score(gsm8k, solution, truth).score
      }
      const sum = verdicts.reduce((total, verdict) => total + verdict.score, 0)
      if (sum === models.length) count.allRight++
      if (sum === 0) count.noneRight++
    }
    expect(rows).toHaveLength(1319)
    expect(right.strict).toEqual([286, 515, 458, 742])
    expect(right.published).toEqual(right.strict)
    expect(right.flexible).toEqual([286, 515, 456, 742])
    expect(count).toEqual({ raw: 0, allRight: 156, noneRight: 432 })
  })
})
