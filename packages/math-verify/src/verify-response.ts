import { Budget } from './budget.ts'
import type { VerifyOptions } from './equal.ts'
import { type ParsedAnswer, parse, type Verdict, verify } from './verify.ts'

/** Maximum number of cached ground truths. The samples of a group share one ground truth. */
const MAX_CACHED = 512
const cached = new Map<string, ParsedAnswer>()

/** Thrown for a ground truth without an answer, or with one beyond the limits. */
export class GroundTruthError extends Error {
  override readonly name = 'GroundTruthError'
  readonly isTooLarge: boolean

  constructor(isTooLarge: boolean) {
    super(`The ground truth ${isTooLarge ? 'is too large to compare' : 'contains no answer'}.`)
    this.isTooLarge = isTooLarge
  }
}

/**
 * Compares a response with a ground truth as verl's `math_verify` does: the ground truth is LaTeX without delimiters;
 * the response's answer is LaTeX or plain text.
 * @param options `deadlineMs`: CPU milliseconds, 100 by default
 * @throws GroundTruthError, OutOfBudget
 */
export function verifyResponse(
  response: string,
  groundTruth: string,
  options: VerifyOptions & { deadlineMs?: number } = {},
): Verdict {
  const budget = new Budget(options.deadlineMs)
  const gold = parseGroundTruth(groundTruth, budget)
  return verify(gold, parse(response, ['plain', 'latex'], budget), budget, options)
}

/**
 * Parses a ground truth: LaTeX without delimiters.
 * @throws GroundTruthError, OutOfBudget
 */
export function parseGroundTruth(groundTruth: string, budget: Budget = new Budget()): ParsedAnswer {
  const known = cached.get(groundTruth)
  if (known) return known
  const gold = parse(`\\boxed{${groundTruth}}`, ['latex'], budget)
  if (gold.fallback === null) throw new GroundTruthError(gold.isTooLarge)
  if (cached.size >= MAX_CACHED) cached.delete(cached.keys().next().value as string)
  cached.set(groundTruth, gold)
  return gold
}
