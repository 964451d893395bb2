import { createHash } from 'node:crypto'
import type { ScoreInput, ScoreResult } from '../../contract/trainer.ts'

/** How long the scores of a request wait for its repetition, in ms. OpenRLHF repeats a request after a second. */
const KEPT_MS = 60_000
/** Maximum scores kept in memory; the oldest are dropped first. */
const MAX_KEPT = 16_384

export interface StartedScore {
  input: ScoreInput
  result: Promise<ScoreResult>
}

/**
 * The scores of requests that failed, or whose caller disconnected. Trainers repeat such requests, and the dialects have
 * no idempotency keys. So an equal sample of the same step gets the kept score, and is not stored again. Each kept score
 * is used once, because equal samples of other requests are samples of their own. Failed samples are not kept, so a
 * repetition scores them again.
 */
export class UnansweredScores {
  readonly #kept = new Map<string, { keptAtMs: number; result: Promise<ScoreResult> }[]>()
  #count = 0

  keep({ input, result }: StartedScore): void {
    const content = contentOf(input)
    const list = this.#kept.get(content) ?? []
    // The entry moves to the end of the map, whose first entries are the oldest.
    this.#kept.delete(content)
    this.#kept.set(content, [...list, { keptAtMs: performance.now(), result }])
    this.#count++
    const drop = () => this.#drop(content, result)
    result.then(({ score }) => {
      if (score === null) drop()
    }, drop)
    this.#dropOld()
  }

  /** Returns the kept score of a sample, which may still be pending, or undefined. */
  take(input: ScoreInput): Promise<ScoreResult> | undefined {
    this.#dropOld()
    if (this.#count === 0) return undefined
    const content = contentOf(input)
    const result = this.#kept.get(content)?.[0]?.result
    if (result !== undefined) this.#drop(content, result)
    return result
  }

  #drop(content: string, result: Promise<ScoreResult>): void {
    const list = this.#kept.get(content) ?? []
    const left = list.filter((one) => one.result !== result)
    this.#count -= list.length - left.length
    if (left.length === 0) this.#kept.delete(content)
    else this.#kept.set(content, left)
  }

  #dropOld(): void {
    const since = performance.now() - KEPT_MS
    for (const [content, list] of this.#kept) {
      if (this.#count <= MAX_KEPT && (list.at(-1)?.keptAtMs ?? since) > since) return
      this.#kept.delete(content)
      this.#count -= list.length
    }
  }
}

function contentOf(input: ScoreInput): string {
  return createHash('sha256').update(JSON.stringify(input)).digest('base64')
}
