/** Samples of a rule, for its tests and benchmarks. */
export interface RuleCases {
  /** Builds the ground truth for an accepted answer. Default: the answer itself. */
  groundTruth?: (answer: string) => unknown
  /** Builds a response's answer and the accepted answer from a number. The rule scores them as equal. */
  usual: { response: (n: number) => string; accepted: (n: number) => string }
  /** Samples with their scores. The explanation of each must match its score. */
  scored: readonly [
    response: string,
    groundTruth: unknown,
    score: number,
    kwargs?: Record<string, unknown>,
  ][]
  /** The explanation shows a normalized answer, which the response need not contain. */
  isFoundNormalized?: true
  /** Normalized answers are compared by value, so equal answers may differ as text. */
  isByValue?: true
  slow: readonly SlowText[]
}

/** A response that is designed to be slow to score. */
export interface SlowText {
  /** Text that is repeated up to the length under test. */
  unit: string
  /** Where the units are, for the test title. Default: they are the whole response. */
  place?: string
  response?: (units: string) => string
  /** The accepted answer. Default: `1`. */
  accepted?: (units: string) => string
  kwargs?: Record<string, unknown>
  wanted: number
}

/** Cases of all rules that call no service. `registry.test.ts` refuses a rule without cases. */
export const RULE_CASES: Readonly<Record<string, RuleCases>> = {
  gsm8k: {
    usual: { response: (n) => `#### ${n}`, accepted: String },
    scored: [
      ['so 1,200\n#### 1,200', '1200', 1],
      ['so 71\n#### 71', '72', 0],
      ['no mark, 72', '72', 0],
      ['no mark, 72', '72', 1, { method: 'flexible' }],
    ],
    slow: [
      { unit: '#### ', wanted: 0 },
      { unit: '-.,1', kwargs: { method: 'flexible' }, wanted: 0 },
      {
        unit: '😀',
        place: 'an answer after',
        response: (units) => `${units}#### 1`,
        wanted: 1,
      },
    ],
  },
  math_reward: {
    usual: {
      response: (n) => `$\\boxed{\\frac{${n}}{7}}$.`,
      accepted: (n) => `\\frac{${n}}{7}`,
    },
    scored: [
      ['thus \\boxed{\\dfrac{1}{2}}', '\\frac12', 1],
      ['thus \\boxed{3}', '4', 0],
      ['nothing', '4', 0],
    ],
    slow: [
      {
        unit: '{',
        place: 'deep braces:',
        response: (units) => `\\boxed{${units}${'}'.repeat(units.length)}}`,
        accepted: (units) => `${units}${'}'.repeat(units.length)}`,
        wanted: 1,
      },
      ...each(['\\boxed{', '\\boxed', '\\boxed '], { wanted: 0 }),
      ...each(
        ['\\frac12', '\\sqrt3', '\\sqrt', '\\text{ ', ' ', '\\\\', '\\!', '=', '/', '^\\circ', '9'],
        { place: 'a box full of', response: (units) => `\\boxed{${units}}`, wanted: 0 },
      ),
    ],
  },
  math_dapo: {
    usual: { response: (n) => `Answer: ${n}`, accepted: String },
    scored: [
      ['Answer: $\\text{12}$', '12', 1],
      ['Answer: 13', '12', -1],
      ['in a box: \\boxed{12}', '12', 1, { version: '2026-08' }],
      ['in a box: \\boxed{12}', '12', 1, { strict_box_verify: true }],
    ],
    slow: [
      { unit: '\\boxed{', kwargs: { version: '2026-08' }, wanted: -1 },
      ...each(['Answer:', 'Answer \n'], { wanted: -1 }),
      ...each(
        [
          ...['\\text{', '\\text{\n', '\\boxed{', '$', 'frac', 'sqrt', ' \t', '\t', 'a ', '='],
          ...['1,', '}'],
        ],
        {
          place: 'a ground truth full of',
          response: () => 'Answer: 7',
          accepted: (units) => `x${units}x`,
          wanted: -1,
        },
      ),
    ],
  },
  search_r1: {
    groundTruth: (answer) => ({ target: answer }),
    usual: { response: (n) => `<answer>The ${n}</answer>`, accepted: String },
    scored: [
      ['<answer>The Paris!</answer>', { target: ['London', 'Paris'] }, 1],
      ['<answer>Rome</answer>', { target: ['London', 'Paris'] }, 0],
    ],
    slow: [
      { unit: '<answer>', accepted: () => 'x', wanted: 0 },
      ...each(['</answer>', '<answer', '<answer></answer>', '<answer> '], {
        accepted: () => 'x',
        wanted: 0,
      }),
      ...each(['the ', 'a', ' \u0085', '.', 'É'], {
        place: 'an answer full of',
        response: (units) => `<answer>x${units}x</answer>`,
        accepted: () => 'x z',
        kwargs: { method: 'subem' },
        wanted: 0,
      }),
    ],
  },
  prime_math: {
    usual: { response: (n) => `The answer is \\boxed{${n}}.`, accepted: String },
    scored: [['The answer is \\boxed{5 \\text{ cm}}', '5', 1]],
    isByValue: true,
    slow: each(
      ['answer is', 'is ', '= ', '. ', '\\boxed{', '\\boxed', '\n', '\\fbox{x}', 'İ is '],
      { accepted: () => '7', wanted: 0 },
    ),
  },
  geo3k: {
    usual: {
      response: (n) => `</think> \\boxed{${n}\\sqrt{2}}`,
      accepted: (n) => `${n}\\sqrt{2}`,
    },
    scored: [['<think>…</think>\\boxed{5}', '5', 1]],
    slow: each(['<think>', '</think>', '<think></think>', '\\boxed{', '}', '\\boxed{x}'], {
      response: (units) => `x${units}`,
      accepted: () => '7',
      wanted: 0,
    }),
  },
  math_verify: {
    usual: {
      response: (n) => `$\\boxed{\\frac{${n}}{7}}$.`,
      accepted: (n) => `\\frac{${2 * n}}{14}`,
    },
    scored: [
      ['so $x = \\frac{2}{4}$', '\\frac12', 1],
      ['so \\boxed{\\{2, 1\\}}', '\\{1, 2\\}', 1],
    ],
    isFoundNormalized: true,
    isByValue: true,
    slow: [
      ...each(
        [
          ...['$', '$$', '$\\$', '$x$ ', '$x$, ', '\\[', '\\(', ' [', '\\boxed{', '\\boxed{x}'],
          ...['\\boxed{x} and ', '\\frac{', '{', ' ', '=', '= ', '1+', '**', 'x %', 'answer'],
          ...['Answer: ', 'final answer is ', 'The final answer is $x$. ', 'x\n'],
        ],
        { accepted: () => 'y', wanted: 0 },
      ),
      ...each(['x ', '(', '\\frac1', '9^', '{', 'x,', '\\text{', '|'], {
        place: 'a box full of',
        response: (units) => `\\boxed{${units}}`,
        accepted: () => 'y',
        wanted: 0,
      }),
    ],
  },
}

export function truthOf(rule: string, accepted: string): unknown {
  return RULE_CASES[rule]?.groundTruth?.(accepted) ?? accepted
}

function each(units: readonly string[], text: Omit<SlowText, 'unit'>): SlowText[] {
  return units.map((unit) => ({ unit, ...text }))
}
