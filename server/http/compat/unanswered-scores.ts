import { createHash } from 'node:crypto'
import type { ScoreInput, ScoreResult } from '../../contract/trainer.ts'

/** How long the scores of a request wait for its retry, in ms. OpenRLHF retries a request after a second. */
const KEPT_MS = 60_000
/** Maximum number of scores kept in memory; the oldest are dropped first. */
const MAX_KEPT = 4_096

export interface StartedScore {
  input: ScoreInput
  result: Promise<ScoreResult>
  /** Aborted when no request can use the result any more. */
  abandon: AbortController
}

interface KeptScore extends StartedScore {
  content: string
  keptAtMs: number
}

/**
 * The scores of requests that failed, or whose caller disconnected. Trainers retry such requests, and the dialects have
 * no idempotency keys. So an equal sample of the same step gets the kept score, and is not stored again. Each kept
 * score is used once, because equal samples of other requests are separate samples. Failed samples are not kept,
 * so a retry scores them again.
 */
export class UnansweredScores {
  readonly #byContent = new Map<string, Set<KeptScore>>()
  /** Oldest first. */
  readonly #inOrder = new Set<KeptScore>()
  #timer: NodeJS.Timeout | undefined

  keep(score: StartedScore): void {
    const kept = { ...score, content: contentOf(score.input), keptAtMs: performance.now() }
    const equal = this.#byContent.get(kept.content) ?? new Set()
    this.#byContent.set(kept.content, equal.add(kept))
    this.#inOrder.add(kept)
    const drop = () => this.#drop(kept)
    score.result.then(({ status }) => {
      if (status === 'failed') drop()
    }, drop)
    this.#timer ??= setInterval(() => this.#abandonOld(), KEPT_MS / 4).unref()
    this.#abandonOld()
  }

  /** Returns the kept score of a sample, which may still be pending, or undefined. */
  take(input: ScoreInput): StartedScore | undefined {
    this.#abandonOld()
    if (this.#inOrder.size === 0) return undefined
    const [kept] = this.#byContent.get(contentOf(input)) ?? []
    if (kept !== undefined) this.#drop(kept)
    return kept
  }

  #drop(kept: KeptScore): void {
    this.#inOrder.delete(kept)
    const equal = this.#byContent.get(kept.content)
    equal?.delete(kept)
    if (equal?.size === 0) this.#byContent.delete(kept.content)
  }

  #abandonOld(): void {
    const since = performance.now() - KEPT_MS
    for (const kept of this.#inOrder) {
      if (this.#inOrder.size <= MAX_KEPT && kept.keptAtMs > since) return
      this.#drop(kept)
      kept.abandon.abort()
    }
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

function contentOf(input: ScoreInput): string {
  return createHash('sha256').update(JSON.stringify(input)).digest('base64')
}
