import type { JsonObject } from './parse-json.ts'
import type { Rollout } from './rollout.ts'

/** Recognizes `example_model_solutions.jsonl` by its first line. A line has a problem and one solution per model. */
export function looksLikeOpenAiSolutions(first: JsonObject): boolean {
  return (
    typeof first.question === 'string' &&
    typeof first.ground_truth === 'string' &&
    Object.values(first).some(isSolution)
  )
}

/**
 * Reads a problem as a group with one sample per model, in the file's order. Answer lines `A: 72` become `#### 72`,
 * which the rule of GSM8K expects. The ground truth is the answer line of the reference solution.
 * @throws Error naming the field
 */
export function readOpenAiSolutions(line: JsonObject, index: number): Rollout[] {
  const { question, ground_truth: worked, ...solutions } = line
  if (typeof question !== 'string') throw new Error('"question" is missing or not text')
  if (typeof worked !== 'string') throw new Error('"ground_truth" is missing or not text')
  const expected = /^A: (.+)$/m.exec(worked)?.[1]
  if (expected === undefined) throw new Error('"ground_truth" has no line "A: <answer>"')
  const groundTruth = expected.trim().replaceAll(',', '')

  return Object.entries(solutions).map(([model, solution]) => {
    if (!isSolution(solution)) {
      throw new Error(
        `"${model}" is not a solution: expected {"solution": text, "is_correct": boolean}`,
      )
    }
    return {
      sample: {
        uid: `gsm8k-${index}`,
        dataSource: 'openai/gsm8k',
        prompt: question,
        response: solution.solution.replace(/^A: /gm, '#### '),
        groundTruth,
        extraInfo: { model, is_correct: solution.is_correct, index },
      },
      run: null,
      step: null,
      split: null,
    }
  })
}

function isSolution(value: unknown): value is { solution: string; is_correct: boolean } {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as JsonObject).solution === 'string' &&
    typeof (value as JsonObject).is_correct === 'boolean'
  )
}
