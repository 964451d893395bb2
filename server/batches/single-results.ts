import type { EndedMessage } from '../contract/ended-message.ts'
import { RESULT_FIELDS, type ResultFields, withFields } from '../contract/sample-fields.ts'
import type { Result, SampleInput } from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { durationAsStored } from '../store/sql/flush.ts'
import { positionOf, samplesByIndex, toResult } from '../store/sql/results.ts'
import type { BatchSignals } from './signals.ts'

/**
 * Workers report the results of samples. In case a report is lost, the table `sample` is checked after FIRST_LOOK_MS,
 * then every LOOK_MS.
 */
const FIRST_LOOK_MS = 50
const LOOK_MS = 1_000

interface Watched {
  /** Null for a sample that another call stored. The result of such a sample is read from the table `sample`. */
  sample: SampleInput | null
  resolve: (result: Result) => void
  reject: (error: Error) => void
}

/** Callers that wait for single samples. A result comes from a local worker's report or from the table `sample`. */
export class SingleResults {
  readonly #db: Database
  readonly #signals: BatchSignals
  readonly #watched = new Map<number, Map<number, Set<Watched>>>()
  readonly #watching = new Set<number>()

  constructor(db: Database, signals: BatchSignals) {
    this.#db = db
    this.#signals = signals
  }

  /** Resolves with the sample's result; rejects when the caller disconnects or the service stops. */
  wait(
    batchId: number,
    index: number,
    sample: SampleInput | null,
    signal?: AbortSignal,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      const byIndex = this.#watched.get(batchId) ?? new Map<number, Set<Watched>>()
      this.#watched.set(batchId, byIndex)
      const set = byIndex.get(index) ?? new Set<Watched>()
      byIndex.set(index, set)
      const leave = () => {
        set.delete(watched)
        if (set.size === 0) byIndex.delete(index)
        if (byIndex.size === 0 && this.#watched.get(batchId) === byIndex) {
          this.#watched.delete(batchId)
        }
        signal?.removeEventListener('abort', onAbort)
      }
      const onAbort = () => {
        leave()
        reject(new RewardOpsError('busy', 'The caller disconnected.'))
      }
      const watched: Watched = {
        sample,
        resolve: (result) => {
          leave()
          resolve(result)
        },
        reject: (error) => {
          leave()
          reject(error)
        },
      }
      set.add(watched)
      signal?.addEventListener('abort', onAbort)
      void this.#watch(batchId)
      // A sample that another call stored, or that came with its score, may have a result already.
      if (sample === null || sample.score != null) this.#signals.notify(batchId)
    })
  }

  ended(message: EndedMessage): void {
    for (const end of message.samples) {
      const set = this.#watched.get(end.batchId)?.get(end.index)
      for (const watched of [...(set ?? [])]) {
        if (watched.sample) watched.resolve(resultOf(watched.sample, end, message.workerId))
      }
    }
  }

  /** Rejects waiting callers so that they retry: their samples are stored and are scored after the restart. */
  stop(): void {
    const stopping = new RewardOpsError(
      'shutting_down',
      'The service is stopping; the sample is stored and will be scored.',
      {
        hint: 'Retry after retryAfterMs, with the same idempotencyKey if there was one.',
        retryAfterMs: 2_000,
      },
    )
    for (const byIndex of [...this.#watched.values()]) {
      for (const set of [...byIndex.values()]) {
        for (const watched of [...set]) watched.reject(stopping)
      }
    }
  }

  async #watch(batchId: number): Promise<void> {
    if (this.#watching.has(batchId)) return
    this.#watching.add(batchId)
    try {
      await this.#signals.wait(batchId, FIRST_LOOK_MS)
      for (;;) {
        const byIndex = this.#watched.get(batchId)
        if (!byIndex) return
        const moved = this.#signals.wait(batchId, LOOK_MS)
        const rows = await samplesByIndex(this.#db, batchId, [...byIndex.keys()]).catch(
          (error: Error) => error,
        )
        if (!(rows instanceof Error)) {
          for (const row of rows) {
            if (row.status < 2) continue
            const result = toResult(row)
            for (const watched of [...(byIndex.get(row.idx) ?? [])]) watched.resolve(result)
          }
        }
        if (!this.#watched.has(batchId)) return
        await moved
      }
    } finally {
      this.#watching.delete(batchId)
      // A caller may have arrived after the last check.
      if (this.#watched.has(batchId)) void this.#watch(batchId)
    }
  }
}

export function resultOf(
  sample: SampleInput,
  end: Omit<EndedMessage['samples'][number], 'batchId'>,
  workerId: number,
): Result {
  const result: Omit<Result, keyof ResultFields> = {
    index: end.index,
    uid: sample.uid,
    status: end.reason === null ? 'scored' : 'failed',
    reason: end.reason,
    score: end.score,
    rawScore: end.rawScore,
    substituted: end.substituted,
    rewardExtraInfo: end.extra ?? {},
    verdict: end.verdict,
    extracted: end.extracted,
    rewards: end.rewards,
    position: positionOf(sample.responseLength ?? null),
    queueMs: durationAsStored(end.queueMs),
    scoreMs: durationAsStored(end.scoreMs),
    attempts: end.attempts,
    serverName: end.serverName === '' ? null : end.serverName,
    workerId: `w${workerId}`,
  }
  return withFields(result, sample, RESULT_FIELDS)
}
