import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineScore,
  EngineTarget,
  ScoreInput,
} from './engine.ts'

export interface Calibration {
  score: number
  /** Prompt tokens counted by the server; null if it does not report them. */
  promptTokens: number | null
}

/**
 * A good and a bad answer to one question. They must never change, because their scores are stored and compared between
 * replicas.
 */
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
 * The second calibration text. Tokenizers of two library versions may differ on digits, code, blank lines and non-ASCII
 * text although they agree on plain English.
 */
export const MIXED: ScoreInput = {
  prompt: 'Résumé: add 1234567890 and 42, then show it in Python.\n\n\nUse  two  spaces.',
  response:
    '```python\ndef add(a: int, b: int) -> int:\n\treturn a + b\n\n\nprint(add(1234567890, 42))  # 1,234,567,932\n```\n\n答案是 1234567932。 Voilà — 100 % ✓',
}
/**
 * Scores the two calibration texts, on which replicas of a model must agree. Returns null if the engine cannot score
 * fixed texts.
 * @throws Error with the server's answer
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
 * True if scores differ by more than rounding, or token counts differ. The two servers then differ in model, weights,
 * activation or tokenizer. Texts that only one of the servers scored are ignored, because results stored by older
 * versions of rewardops have only one text.
 */
export function calibrationDiffers(a: readonly Calibration[], b: readonly Calibration[]): boolean {
  return differingText(a, b) !== null
}

/** Returns the index of the first calibration text on which two servers disagree, or null if they agree. */
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

export type CalibrationAnswer = EngineScore | (EngineFailure & { routeMissing?: boolean })

/** Never rejects. */
export async function askScore(
  engine: Engine,
  fetch: EngineFetch,
  target: EngineTarget,
  input: ScoreInput,
): Promise<CalibrationAnswer> {
  try {
    const { path, body } = engine.buildScoreRequest(input, target)
    const reply = await fetch(path, { method: 'POST', body: String(body) })
    const answer = engine.parseScoreResponse(reply.status, reply.headers, reply.bodyText, target)
    return answer.ok ? answer : { ...answer, routeMissing: [404, 405].includes(reply.status) }
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    return { ok: false, class: 'fault', reason: 'transport', detail }
  }
}
