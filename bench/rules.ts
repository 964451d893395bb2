import { existsSync, readFileSync } from 'node:fs'
import { verifyResponse } from '../packages/math-verify/src/index.ts'
import { ruleByName } from '../server/rewards/rules/registry.ts'
import type { RuleInput } from '../server/rewards/rules/rule.ts'
import { RULE_CASES, truthOf } from '../testkit/rules/rule-cases.ts'
import type { Emit } from './harness.ts'
import { quantile, rounded } from './statistics.ts'
import { randomTexts } from './texts.ts'

const SAMPLES = 8_192
/** Measuring time per rule. The warm-up before it takes 10 % of this time. */
const MEASURE_MS = 2_000
const MEGABYTE = 1_048_576

/**
 * Texts designed to be slow. `text` is repeated to 1 MB. `answer` is repeated to about the maximum length that rules
 * read in a `\boxed{}`. `whole` is put in a `\boxed{}` unchanged.
 */
const TRAPS = {
  text: [
    ...[
      '#### ',
      '-.,1',
      '\\boxed{',
      '\\boxed ',
      '{',
      'Answer:',
      ' ',
      '\\frac12',
      '\\text{',
      '=',
      '<answer>',
      'a ',
      '9',
    ],
    ...[
      '$',
      '$$',
      '$\\$',
      '$1$ ',
      '\\[',
      '\\(',
      ' [',
      '1 ',
      '1+',
      'final answer is ',
      'The answer is ',
      '. ',
      '\n',
    ],
    ...['<think></think>', '\\boxed{1} and ', '1,000 ', '$a$, '],
  ],
  answer: [
    ...[
      '(',
      '{',
      '|',
      '{|',
      '{|x',
      '\\left|',
      '\\frac{1}{',
      '\\sqrt{',
      '-',
      '1+',
      'x',
      '9^',
      '9^{',
      '\\sin',
      'f(',
      '1,',
    ],
    ...[
      '(1,2),',
      '1\\pm',
      '=',
      '[1,2]\\cup',
      '5!',
      '\\text{a}',
      '(a+b)',
      '(a+b)^{40}',
      '1/7+',
      '\\sqrt2+',
      '123 456 ',
    ],
  ],
  whole: [
    ...[
      '9^{9^{9^9}}',
      '2^{16000}',
      '1000!',
      '\\binom{2000}{1000}',
      '\\gcd(2^{16000}, 3^{9000})',
      '(1/3)^{5000}',
    ],
    ...[
      '\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}^{64}',
      '\\sqrt[64]{2^{16000}}',
      '((2^{100})^{100})^{100}',
    ],
  ],
}

/** Measures each rule's verdicts per second on one core, and its longest time for a text designed to be slow. */
export async function measureRules(emit: Emit): Promise<void> {
  const text = randomTexts(1)
  for (const [name, { usual }] of Object.entries(RULE_CASES)) {
    const inputs = Array.from({ length: SAMPLES }, (_, at): RuleInput => {
      const number = 10 + ((at >> 3) % 1_000)
      const given = at % 3 === 0 ? number + 1 : number
      return {
        dataSource: 'bench',
        solutionStr: `${text(2_200)}\n${usual.response(given)}`,
        groundTruth: truthOf(name, usual.accepted(number)),
        extraInfo: {},
        kwargs: {},
      }
    })
    const { perSecond, right } = rateOf(name, inputs)
    emit({
      name: 'rules.rate',
      rule: name,
      responseLength: inputs[0]!.solutionStr.length,
      perSecond: rounded(perSecond),
      microseconds: rounded(1_000_000 / perSecond, 1),
      rightPercent: rounded(right * 100, 1),
    })
  }
  measurePublished(emit)
  for (const name of Object.keys(RULE_CASES)) {
    const slow = trapsOf(name)
    emit({
      name: 'rules.adversarial',
      rule: name,
      inputs: slow.length,
      p50Ms: rounded(
        quantile(
          slow.map(({ ms }) => ms),
          0.5,
        ),
        1,
      ),
      maxMs: rounded(slow[0]!.ms, 1),
      slowest: slow[0]!.title,
    })
  }
}

function rateOf(name: string, inputs: readonly RuleInput[]): { perSecond: number; right: number } {
  const rule = ruleByName(name)!
  let right = 0
  let verdicts = 0
  const run = (forMs: number) => {
    right = 0
    verdicts = 0
    const start = performance.now()
    let spent = 0
    while (spent < forMs) {
      for (const input of inputs) if (rule.score(input).score > 0) right++
      verdicts += inputs.length
      spent = performance.now() - start
    }
    return (verdicts / spent) * 1000
  }
  run(MEASURE_MS / 10)
  return { perSecond: run(MEASURE_MS), right: right / verdicts }
}

/** Scores GSM8K's published solutions with math_verify, if the data is available. */
function measurePublished(emit: Emit): void {
  const file = new URL('../../shared/data/gsm8k/example_model_solutions.jsonl', import.meta.url)
  if (!existsSync(file)) return
  const models = ['6b_finetuning', '6b_verification', '175b_finetuning', '175b_verification']
  const took: number[] = []
  let disagreements = 0
  for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
    const row = JSON.parse(line) as Record<string, { is_correct: boolean; solution: string }> & {
      ground_truth: string
    }
    const truth = row.ground_truth.slice(row.ground_truth.lastIndexOf('A: ') + 3).trim()
    for (const model of models) {
      const { solution, is_correct } = row[model]!
      const start = performance.now()
      if (verifyResponse(solution, truth).correct !== is_correct) disagreements++
      took.push(performance.now() - start)
    }
  }
  emit({
    name: 'rules.math_verify_published',
    comparisons: took.length,
    disagreements,
    p50Ms: rounded(quantile(took, 0.5), 3),
    p99Ms: rounded(quantile(took, 0.99), 3),
    maxMs: rounded(Math.max(...took), 1),
  })
}

function trapsOf(name: string): { title: string; ms: number }[] {
  const rule = ruleByName(name)!
  const texts: [title: string, response: string, truth: string][] = []
  for (const unit of TRAPS.text) {
    const units = unit.repeat(Math.ceil(MEGABYTE / unit.length))
    texts.push([`1 MB of ${JSON.stringify(unit)}`, units, '7'])
    texts.push([`a box with 1 MB of ${JSON.stringify(unit)}`, `\\boxed{${units}}`, '7'])
    texts.push([`an answer with 1 MB of ${JSON.stringify(unit)}`, `<answer>${units}</answer>`, '7'])
  }
  for (const unit of TRAPS.answer) {
    const answer = unit.repeat(Math.ceil(1_900 / unit.length))
    const title = `an answer of ${JSON.stringify(unit)}`
    texts.push([title, `The answer is \\boxed{${answer}}`, '7'])
    texts.push([
      `${title} against an equal one`,
      `The answer is \\boxed{1+${answer}}`,
      `1+${answer}+0`,
    ])
  }
  for (const answer of TRAPS.whole) {
    texts.push([answer, `The answer is \\boxed{${answer}}`, '7'])
    texts.push([`${answer} + 1 against ${answer}`, `The answer is \\boxed{${answer} + 1}`, answer])
  }
  return texts
    .map(([title, solutionStr, truth]) => {
      const groundTruth = truthOf(name, truth)
      const input = { dataSource: 'bench', solutionStr, groundTruth, extraInfo: {}, kwargs: {} }
      const start = performance.now()
      let failed = ''
      try {
        rule.score(input)
      } catch (error) {
        failed = ` (${(error as Error).name})`
      }
      return { title: title + failed, ms: performance.now() - start }
    })
    .sort((a, b) => b.ms - a.ms)
}
