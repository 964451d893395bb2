import type { DirectEnd, DirectEndMessage, DirectScoreMessage } from '../contract/direct-score.ts'
import { responseText } from '../contract/turn-text.ts'
import type { RewardOutcome, RewardSample, RewardTools } from '../rewards/managers/manager.ts'
import { managerNamed } from '../rewards/managers/registry.ts'
import type { DatabaseClock } from '../store/clock.ts'
import type { Database } from '../store/database.ts'
import { type BatchSpec, batchSpec } from '../store/sql/worker-reads.ts'
import { SampleTrace } from '../trace-context.ts'
import { checkedParts, sampleEndOf } from './sample-end.ts'
import type { WorkerCounters } from './worker-counters.ts'

const REMEMBERED = 256

/**
 * Scores samples that the service sends directly, before they are stored. If this worker dies, the service queues them.
 */
export class DirectScores {
  readonly #db: Database
  readonly #tools: RewardTools
  readonly #workerId: number
  readonly #clock: DatabaseClock
  readonly #counters: WorkerCounters
  readonly #tell: (message: DirectEndMessage) => void
  readonly #specs = new Map<number, Promise<BatchSpec | undefined>>()
  readonly #running = new Map<number, AbortController>()

  constructor(options: {
    db: Database
    tools: RewardTools
    workerId: number
    clock: DatabaseClock
    counters: WorkerCounters
    tell: (message: DirectEndMessage) => void
  }) {
    this.#db = options.db
    this.#tools = options.tools
    this.#workerId = options.workerId
    this.#clock = options.clock
    this.#counters = options.counters
    this.#tell = options.tell
  }

  async score(message: DirectScoreMessage): Promise<void> {
    const { id } = message
    const abort = new AbortController()
    this.#running.set(id, abort)
    const scored = await this.#score(message, abort.signal).catch(() => null)
    if (!this.#running.delete(id)) return
    if (scored !== null) this.#counters.ended(scored.outcome, scored.end)
    const end = scored?.end ?? null
    this.#tell({ type: 'scored', id, workerId: this.#workerId, end })
  }

  /** Cancels a sample's call, because the sample is scored through the queue instead. */
  forget(id: number): void {
    const abort = this.#running.get(id)
    this.#running.delete(id)
    abort?.abort()
  }

  async #score(
    message: DirectScoreMessage,
    signal: AbortSignal,
  ): Promise<{ outcome: RewardOutcome; end: DirectEnd } | null> {
    const spec = await this.#spec(message.batchId)
    if (spec === undefined) return null
    const { sample, acceptedAtMs } = message
    const { reward } = spec
    const startedAt = this.#clock.nowMs()
    const clock = performance.now()
    const manager = managerNamed(reward.manager)
    const response = withContent(sample.response)
    const rewardSample: RewardSample = {
      dataSource: sample.dataSource,
      prompt: withContent(sample.prompt),
      solutionStr: responseText(response),
      ...(typeof response === 'string' ? {} : { messages: response }),
      groundTruth: sample.groundTruth ?? null,
      extraInfo: sample.extraInfo,
      responseLength: sample.responseLength,
    }
    const given: RewardOutcome =
      reward.kind === 'rule'
        ? manager.runRule(rewardSample, reward)
        : await manager.run(rewardSample, {
            reward,
            ...this.#tools,
            signal,
            urgent: true,
            run: spec.run,
            group: undefined,
            key: `direct-${message.id}`,
            priority: spec.priority,
            deadlineMs: spec.deadline_at ? spec.deadline_at.getTime() - startedAt : undefined,
            trace: spec.trace === null ? undefined : new SampleTrace(spec.trace, spec.id, null),
          })
    const outcome = checkedParts(given, () => response)
    const first = outcome.attempts?.[0]
    const dispatchedAtMs = first
      ? first.startedAtMs + this.#clock.offsetMs
      : startedAt + (outcome.waitedMs ?? 0)
    const waitedMs = Math.max(0, dispatchedAtMs - startedAt)
    const scoreMs = Math.max(0, performance.now() - clock - waitedMs)
    const end = sampleEndOf(outcome, reward, {
      acceptedAtMs,
      dispatchedAtMs,
      scoreMs,
      clockOffsetMs: this.#clock.offsetMs,
    })
    return { outcome, end }
  }

  #spec(batchId: number): Promise<BatchSpec | undefined> {
    let spec = this.#specs.get(batchId)
    if (spec === undefined) {
      spec = batchSpec(this.#db, batchId)
      if (this.#specs.size >= REMEMBERED) this.#specs.clear()
      this.#specs.set(batchId, spec)
      spec.catch(() => this.#specs.delete(batchId))
    }
    return spec
  }
}

/** Gives turns without content an empty text, as `decodeTexts` does. */
function withContent(prompt: DirectScoreMessage['sample']['prompt']): RewardSample['prompt'] {
  if (typeof prompt === 'string') return prompt
  return prompt.map((turn) => ({ ...turn, content: turn.content ?? '' }))
}
