import type { TryDraft } from './try-form.prepare.ts'

export interface TryExample {
  name: string
  draft: Partial<TryDraft>
}

/** The texts are synthetic. */
export const TRY_EXAMPLES: readonly TryExample[] = [
  {
    name: 'GSM8K',
    draft: {
      dataSource: 'openai/gsm8k',
      prompt: 'Lena bakes 12 trays of 16 rolls and gives 15 to the neighbors. How many are left?',
      response:
        'First, 12 * 16 = 192 rolls are baked.\nThen 192 - 15 = 177 rolls are left.\n#### 177',
      groundTruth: '177',
    },
  },
  {
    name: 'MATH, boxed',
    draft: {
      dataSource: 'DigitalLearningGmbH/MATH-lighteval',
      prompt: 'What is $\\frac{3}{6}$ in lowest terms?',
      response: 'Both parts are divisible by 3, so it is $\\boxed{\\dfrac{1}{2}}$.',
      groundTruth: '\\frac12',
    },
  },
  {
    name: 'DAPO, overlong',
    draft: {
      dataSource: 'math_dapo',
      prompt: 'How many primes are there below 30?',
      response: 'They are 2, 3, 5, 7, 11, 13, 17, 19, 23 and 29.\n\nAnswer: $10$',
      groundTruth: '10',
      responseLength: '18432',
      manager: 'dapo',
      kwargs:
        '{"max_resp_len": 20480, "overlong_buffer_cfg": {"enable": true, "len": 4096, "penalty_factor": 1.0}}',
    },
  },
  {
    name: 'Math-Verify, sets',
    draft: {
      dataSource: 'any',
      prompt: 'Solve $x^2 - 3x + 2 = 0$.',
      response: 'It factors as $(x - 1)(x - 2)$, so the final answer is $x \\in \\{2, 1\\}$.',
      groundTruth: '\\{1, 2\\}',
      scorer: 'rule:math_verify',
    },
  },
  {
    name: 'Search QA',
    draft: {
      dataSource: 'searchR1_nq',
      prompt: 'Where is the Eiffel Tower?',
      response: '<think>It is in France.</think>\n<answer>The city of Paris.</answer>',
      groundTruth: '{"target": ["Paris", "Paris, France"]}',
      kwargs: '{"method": "subem"}',
    },
  },
]
