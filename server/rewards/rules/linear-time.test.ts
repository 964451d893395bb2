/**
 * Responses of up to 1 MB (256 KB in the quick run) that are built to be slow. The tests check the verdict and the
 * growth of CPU time when the text becomes four times as long: about 4 for linear work, 16 for quadratic work. A
 * quadratic rule fails at 64 KB, before it takes minutes.
 */

import { expect, test } from 'vitest'
import { verifyResponse } from '../../../packages/math-verify/src/index.ts'
import { inFullRun } from '../../../testkit/service/full-run.ts'
import { ruleByName, ruleForDataSource } from './registry.ts'

const lengths = [16_384, 65_536, 262_144, ...inFullRun(1_048_576)]

/** CPU time, ms, below which the clock and the garbage collector dominate a measurement. */
const noiseMs = 4

/** Maximum growth of CPU time, between 4 and 16, and nearer to 16 because pauses add to the measured time. */
const mostGrowth = 11

interface Adversarial {
  title: string
  /** A data source with a rule, or a rule's name. */
  dataSource: string
  kwargs?: Record<string, unknown>
  /** Text that is repeated until the response has the wanted length. */
  unit: string
  /** Builds the response from the units. */
  wrap?: (units: string) => string
  truth?: (units: string) => unknown
  wanted: number
}

const target = { target: 'x' }
const dapo2026 = { version: '2026-08' }

const cases: Adversarial[] = [
  { title: 'gsm8k: hashes', dataSource: 'openai/gsm8k', unit: '#### ', wanted: 0 },
  {
    title: 'gsm8k: digits and points, flexible',
    dataSource: 'openai/gsm8k',
    kwargs: { method: 'flexible' },
    unit: '-.,1',
    wanted: 0,
  },
  {
    title: 'gsm8k: pairs of surrogates',
    dataSource: 'openai/gsm8k',
    unit: '😀',
    wrap: (units) => `${units}#### 1`,
    wanted: 1,
  },
  { title: 'math: open boxes', dataSource: 'lighteval/MATH', unit: '\\boxed{', wanted: 0 },
  { title: 'math: empty boxes', dataSource: 'lighteval/MATH', unit: '\\boxed', wanted: 0 },
  { title: 'math: spaced boxes', dataSource: 'lighteval/MATH', unit: '\\boxed ', wanted: 0 },
  {
    title: 'math: deep braces',
    dataSource: 'lighteval/MATH',
    unit: '{',
    wrap: (units) => `\\boxed{${units}${'}'.repeat(units.length)}}`,
    truth: (units) => `${units}${'}'.repeat(units.length)}`,
    wanted: 1,
  },
  ...[
    '\\frac12',
    '\\sqrt3',
    '\\sqrt',
    '\\text{ ',
    ' ',
    '\\\\',
    '\\!',
    '=',
    '/',
    '^\\circ',
    '9',
  ].map((unit) => ({
    title: `math: a box full of ${JSON.stringify(unit)}`,
    dataSource: 'lighteval/MATH',
    unit,
    wrap: (units: string) => `\\boxed{${units}`.concat('}'),
    wanted: 0,
  })),
  { title: 'dapo: answers', dataSource: 'math_dapo', unit: 'Answer:', wanted: -1 },
  { title: 'dapo: spaces', dataSource: 'math_dapo', unit: 'Answer \n', wanted: -1 },
  { title: 'dapo: boxes', dataSource: 'aime24', kwargs: dapo2026, unit: '\\boxed{', wanted: -1 },
  ...[
    '\\text{',
    '\\text{\n',
    '\\boxed{',
    '$',
    'frac',
    'sqrt',
    ' \t',
    '\t',
    'a ',
    '=',
    '1,',
    '}',
  ].map((unit) => ({
    title: `dapo: a ground truth full of ${JSON.stringify(unit)}`,
    dataSource: 'math_dapo',
    unit,
    wrap: () => 'Answer: 7',
    truth: (units: string) => `x${units}x`,
    wanted: -1,
  })),
  ...['<answer>', '</answer>', '<answer', '<answer></answer>', '<answer> '].map((unit) => ({
    title: `search: ${unit}`,
    dataSource: 'searchR1_nq',
    unit,
    truth: () => target,
    wanted: 0,
  })),
  ...['the ', 'a', ' \u0085', '.', 'É'].map((unit) => ({
    title: `search: an answer full of ${JSON.stringify(unit)}`,
    dataSource: 'searchR1_nq',
    kwargs: { method: 'subem' },
    unit,
    wrap: (units: string) => `<answer>x${units}x</answer>`,
    truth: () => ({ target: 'x z' }),
    wanted: 0,
  })),
  ...[
    '$',
    '$$',
    '$\\$',
    '$x$ ',
    '$x$, ',
    '\\[',
    '\\(',
    ' [',
    '\\boxed{',
    '\\boxed{x}',
    '\\boxed{x} and ',
    '\\frac{',
    '{',
    ' ',
    '=',
    '= ',
    '1+',
    '**',
    'x %',
    'answer',
    'Answer: ',
    'final answer is ',
    'The final answer is $x$. ',
    'x\n',
  ].map((unit) => ({
    title: `math_verify: ${JSON.stringify(unit)}`,
    dataSource: 'math_verify',
    unit,
    truth: () => 'y',
    wanted: 0,
  })),
  ...['x ', '(', '\\frac1', '9^', '{', 'x,', '\\text{', '|'].map((unit) => ({
    title: `math_verify: a box full of ${JSON.stringify(unit)}`,
    dataSource: 'math_verify',
    unit,
    wrap: (units: string) => `\\boxed{${units}}`,
    truth: () => 'y',
    wanted: 0,
  })),
  ...['answer is', 'is ', '= ', '. ', '\\boxed{', '\\boxed', '\n', '\\fbox{x}', 'İ is '].map(
    (unit) => ({
      title: `prime_math: ${JSON.stringify(unit)}`,
      dataSource: 'numina_cn_k12',
      unit,
      truth: () => '7',
      wanted: 0,
    }),
  ),
  ...['<think>', '</think>', '<think></think>', '\\boxed{', '}', '\\boxed{x}'].map((unit) => ({
    title: `geo3k: ${JSON.stringify(unit)}`,
    dataSource: 'hiyouga/geometry3k',
    unit,
    wrap: (units: string) => `x${units}`,
    truth: () => '7',
    wanted: 0,
  })),
]

test.for(cases)('$title', { timeout: 60_000 }, (given) => {
  const { dataSource, kwargs = {}, unit, wrap, truth, wanted } = given
  const rule = ruleForDataSource(dataSource) ?? ruleByName(dataSource)!
  let before = Number.POSITIVE_INFINITY
  for (const length of lengths) {
    const units = unit.repeat(Math.ceil(length / unit.length))
    const input = {
      dataSource,
      solutionStr: wrap?.(units) ?? units,
      groundTruth: truth?.(units) ?? '1',
      extraInfo: {},
      kwargs,
    }
    const spent = cpuMs(() => expect(rule.score(input).score).toBe(wanted))
    expect(spent, `${length} characters after ${before} ms`).toBeLessThan(
      mostGrowth * Math.max(before, noiseMs),
    )
    before = spent
  }
})

/** The least CPU time of up to three runs, ms. It stops after a run of at most `noiseMs`. */
function cpuMs(work: () => void): number {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < 3 && least > noiseMs; run++) {
    const start = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(start)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}

/**
 * Answers of up to nearly the maximum length, built to slow parsers down. An answer of nearly four times the length
 * may take at most eleven times as long.
 */
test.for(
  [
    ...[
      '(',
      '[',
      '{',
      '|',
      '{|',
      '{|x',
      '|x',
      'a|b',
      '\\left|',
      '\\left(',
      '\\frac{1}{',
      '\\frac1',
      '\\sqrt{',
    ],
    ...[
      '-',
      '1+',
      'x',
      'x+',
      '9^',
      '9^{',
      '^',
      '_',
      'x_{',
      '\\sin',
      '\\log_',
      'f(',
      '1,',
      '(1,2),',
      '\\pm',
      '1\\pm',
    ],
    ...[
      '=',
      '<',
      'x=',
      '1<',
      '\\cup',
      '[1,2]\\cup',
      '\\{1\\},',
      '\\begin{pmatrix}',
      '1&',
      '\\\\',
      '!',
      '5!',
      '%',
    ],
    ...[
      '\\text{',
      '\\text{a}',
      '\\binom{9}{',
      '(a+b)',
      '(a+b)^{40}',
      '\\overline{',
      '0.\\overline{3}',
      '123 456 ',
    ],
    ...[
      '1/7+',
      '\\sqrt2+',
      '\\lfloor',
      '\\max(',
      'and ',
      'percent',
      '\\ ',
      ' sqrt(',
      '^(',
      '1:',
      'cm ',
      '\\circ',
    ],
  ].map((unit) => ({ unit })),
)('math_verify: an answer full of $unit', { timeout: 60_000 }, ({ unit }) => {
  let before = Number.POSITIVE_INFINITY
  for (const length of [500, 1_900]) {
    const answer = unit.repeat(Math.ceil(length / unit.length)).slice(0, length)
    const spent = cpuMs(() => {
      verifyResponse(`\\boxed{1+${answer}}`, `1+${answer}+0`, { deadlineMs: 5_000 })
    })
    expect(spent, `${length} characters after ${before} ms`).toBeLessThan(
      mostGrowth * Math.max(before, noiseMs),
    )
    before = spent
  }
})
