import type { Draw } from './random.ts'
import { operandValue, type Problem, resultOf, type Step } from './word-problems.ts'

/** The kinds of generated responses. Only `right` and `terse` satisfy the rule of their data source. */
export type Planted =
  | 'right'
  | 'terse'
  | 'slip'
  | 'misread'
  | 'no_marker'
  | 'currency'
  | 'boxed'
  | 'truncated'
  | 'repetitive'

export const RIGHT: ReadonlySet<Planted> = new Set<Planted>(['right', 'terse'])

export type AnswerMark = '####' | 'Answer:'

export function answerOf(problem: Problem): number {
  return workedResults(problem.steps).at(-1)!
}

export function respond(draw: Draw, problem: Problem, planted: Planted, mark: AnswerMark): string {
  const answer = answerOf(problem)
  const lines = (results: number[], steps = problem.steps) => work(draw, steps, results)
  const closing = (value: number) => `${mark} ${written(draw, value)}`
  const rightResults = workedResults(problem.steps)
  switch (planted) {
    case 'right':
      return [...lines(rightResults), closing(answer)].join('\n')
    case 'terse':
      return closing(answer)
    case 'slip': {
      const results = slippedResults(draw, problem.steps)
      return [...lines(results), closing(results.at(-1)!)].join('\n')
    }
    case 'misread': {
      const shown = problem.steps.length - 1
      return [
        ...lines(rightResults.slice(0, shown), problem.steps.slice(0, shown)),
        closing(rightResults[shown - 1]!),
      ].join('\n')
    }
    case 'no_marker':
      return [...lines(rightResults), `So it is ${answer} in the end.`].join('\n')
    case 'currency':
      return [...lines(rightResults), `${mark} about $${answer} or so`].join('\n')
    case 'boxed':
      return [...lines(rightResults), `The result is \\boxed{${answer}}.`].join('\n')
    case 'truncated': {
      const whole = lines(rightResults).join('\n')
      return whole.slice(0, Math.floor(whole.length * (0.45 + 0.35 * draw.unit())))
    }
    case 'repetitive': {
      const [first] = lines(rightResults)
      const again = draw.pick([
        'Let me check that once more. ',
        'Wait, that has to be counted again. ',
        'So we go back to the beginning. ',
      ])
      return `${first}\n${again.repeat(draw.integer(14, 30)).slice(0, -draw.integer(2, 20))}`
    }
  }
}

function workedResults(steps: readonly Step[]): number[] {
  const results: number[] = []
  for (const step of steps) results.push(resultOf(step, results))
  return results
}

/** Returns the steps' results, of which one is wrong. Later steps use the wrong result. */
function slippedResults(draw: Draw, steps: readonly Step[]): number[] {
  const at = draw.integer(0, steps.length - 1)
  const results: number[] = []
  steps.forEach((step, i) => {
    const right = resultOf(step, results)
    results.push(i === at ? right + draw.pick([-10, -2, -1, 1, 2, 10, 100]) : right)
  })
  return results
}

const OPENINGS = [
  '',
  '',
  'Let us take it step by step.\n',
  'First I write down what is known.\n',
  'We work it out in order.\n',
]

function work(draw: Draw, steps: readonly Step[], results: readonly number[]): string[] {
  const marks = draw.chance(0.3)
  const form = draw.integer(0, 2)
  const lines = steps.map((step, i) => {
    const left = shown(operandValue(step.left, results))
    const right = shown(operandValue(step.right, results))
    const result = shown(results[i]!)
    const sum = `${left} ${step.operator} ${right} = ${marks ? `<<${left}${step.operator}${right}=${result}>>` : ''}${result}`
    if (form === 0) return `${sum} ${step.what}.`
    if (form === 1)
      return `${i === 0 ? 'First' : i === steps.length - 1 ? 'Finally' : 'Then'}, ${sum}, so ${result} ${step.what}.`
    return `We get ${sum}, that is, ${result} ${step.what}.`
  })
  return [draw.pick(OPENINGS) + lines[0], ...lines.slice(1)]
}

/** Rounds to two decimals, because after a slip a division may leave a remainder. */
function shown(value: number): string {
  return String(Math.round(value * 100) / 100)
}

/** Sometimes writes a comma for thousands, which the rules accept. */
function written(draw: Draw, value: number): string {
  const text = shown(value)
  if (Math.abs(value) < 1000 || !Number.isInteger(value) || !draw.chance(0.5)) return text
  return value.toLocaleString('en-US')
}
