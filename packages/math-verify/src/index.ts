/**
 * A TypeScript port of Math-Verify 0.8.0. It finds the mathematical answer of a text and compares it with a ground
 * truth by value.
 */
export { Budget, DEFAULT_DEADLINE_MS, OutOfBudget } from './budget.ts'
export type { AnswerKind } from './candidates.ts'
// Building blocks for graders that find answers by their own rules.
export { answersEqual, type VerifyOptions } from './equal.ts'
export { formatAnswer } from './format-answer.ts'
export { MAX_ANSWER_LENGTH, parseLatex } from './latex-parser.ts'
export { NotReadable } from './lexer.ts'
export { normalizeLatex } from './normalize-latex.ts'
export { evaluate, NoValue, type Numeric } from './numeric.ts'
export { type Rational, TooLarge } from './rational.ts'
export type { Node, Relation, RelationOp } from './tree.ts'
export { type ParsedAnswer, parse, type Verdict, type VerdictReason, verify } from './verify.ts'
export { GroundTruthError, parseGroundTruth, verifyResponse } from './verify-response.ts'
