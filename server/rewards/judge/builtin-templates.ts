import { JudgeTemplate, type JudgeTemplateInput } from './judge-template.ts'

const inputs: JudgeTemplateInput[] = [
  {
    name: 'rating-1-10',
    turns: [
      {
        role: 'system',
        content:
          'You grade answers. Be strict and impartial; length alone is no merit. First explain your grade in a few sentences, then give it on a line of its own as [[n]], n from 1 (useless) to 10 (excellent).',
      },
      { role: 'user', content: 'Question:\n{prompt}\n\nAnswer to grade:\n{response}' },
    ],
    parser: { kind: 'bracketed', min: 1, max: 10 },
  },
  {
    name: 'correct-against-reference',
    turns: [
      {
        role: 'user',
        content:
          'Question:\n{prompt}\n\nReference answer:\n{ground_truth}\n\nAnswer to check:\n{response}\n\nDoes the answer reach the result of the reference? Other notation and other steps do not matter. Explain briefly, then end with \\boxed{True} or \\boxed{False}.',
      },
    ],
    parser: { kind: 'boxed', labels: { True: 1, False: 0 } },
  },
  {
    name: 'yes-no',
    turns: [
      {
        role: 'user',
        content:
          'Question:\n{prompt}\n\nAnswer:\n{response}\n\nIs this answer correct and complete? Say Yes or No, and nothing else.',
      },
    ],
    // Leaves room for the reply to end by itself, because a call with a truncated reply may fail.
    sampling: { maxTokens: 16 },
    parser: { kind: 'yes_no' },
  },
  {
    name: 'pair-against-reference',
    kind: 'pair',
    turns: [
      {
        role: 'system',
        content:
          'You compare two answers to one question. Neither their order nor their length matters. Explain briefly, then give your verdict on a line of its own: [[A]] if answer A is better, [[B]] if answer B is, [[C]] if they are equally good.',
      },
      {
        role: 'user',
        content: 'Question:\n{prompt}\n\nAnswer A:\n{response_a}\n\nAnswer B:\n{response_b}',
      },
    ],
    parser: { kind: 'verdict' },
  },
]

export const BUILTIN_JUDGES: ReadonlyMap<string, JudgeTemplate> = new Map(
  inputs.map((input) => [input.name, JudgeTemplate.parse(input)]),
)
