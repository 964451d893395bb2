import { askScore } from './ask-score.ts'
import type { Engine, EngineFetch, EngineScore, EngineTarget, ScoreInput } from './engine.ts'

/** What a server made of a calibration text. */
export interface Calibration {
  score: number
  /** Prompt tokens that the server counted; null where it does not tell. */
  promptTokens: number | null
}

/** A right and a wrong answer to one question. Fixed: replicas are compared by the first, the calibration text. */
export const QUESTION = 'What is the capital of France, and on which river does it lie?'
export const GOOD: ScoreInput = {
  prompt: QUESTION,
  response: 'The capital of France is Paris. It lies on the river Seine.',
}
export const BAD: ScoreInput = {
  prompt: QUESTION,
  response: 'bananas bananas i dont know lol, maybe Tokyo?? whatever.',
}

/**
 * The second calibration text. Digits, code, blank lines and non-ASCII are where tokenizers of two library versions differ:
 * replicas that agree on plain English may read these otherwise.
 */
export const MIXED: ScoreInput = {
  prompt: 'Résumé: add 1234567890 and 42, then show it in Python.\n\n\nUse  two  spaces.',
  response:
    '```python\ndef add(a: int, b: int) -> int:\n\treturn a + b\n\n\nprint(add(1234567890, 42))  # 1,234,567,932\n```\n\n答案是 1234567932。 Voilà — 100 % ✓',
}
/**
 * What a server makes of the fixed texts that replicas of a model must agree on, a call each; null where no fixed text can
 * be scored. Rejects with an Error that says what the server answered.
 */
export async function calibrationScores(
  engine: Engine,
  fetch: EngineFetch,
  target: EngineTarget,
): Promise<Calibration[] | null> {
  if (!engine.scores || engine.name === 'http') return null
  const found: Calibration[] = []
  for (const text of [GOOD, MIXED]) {
    const answer = await askScore(engine, fetch, target, text)
    if (!answer.ok) throw new Error(answer.detail)
    found.push(calibrationOf(answer))
  }
  return found
}

export function calibrationOf({ score, promptTokens }: EngineScore): Calibration {
  return { score, promptTokens: promptTokens ?? null }
}

/**
 * True when two servers are of different models, weights, activations or tokenizers: scores apart by more than arithmetic
 * explains, or other token counts. Texts that only one of them was asked (an older test had one) are left out.
 */
export function calibrationDiffers(a: readonly Calibration[], b: readonly Calibration[]): boolean {
  return differingText(a, b) !== null
}

/** The index of the first calibration text that two servers do not agree on; null: they agree. */
export function differingText(a: readonly Calibration[], b: readonly Calibration[]): number | null {
  for (let at = 0; at < Math.min(a.length, b.length); at++) {
    const [one, other] = [a[at] as Calibration, b[at] as Calibration]
    if (scoresDiffer(one.score, other.score) || tokensDiffer(one, other)) return at
  }
  return null
}

function scoresDiffer(a: number, b: number): boolean {
  return Math.abs(a - b) > 0.05 * Math.max(1, Math.abs(a), Math.abs(b))
}

function tokensDiffer(a: Calibration, b: Calibration): boolean {
  return a.promptTokens !== null && b.promptTokens !== null && a.promptTokens !== b.promptTokens
}
