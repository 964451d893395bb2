import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { RewardManager, RewardOutcome, RewardSample } from './manager.ts'
import { naiveManager } from './naive.ts'
import { type OverlongBufferRead, penaltyOf, readOverlongBuffer } from './overlong-buffer.ts'

/** Parsed overlong-buffer options by kwargs object. All samples of a batch share one kwargs object. */
const buffers = new WeakMap<object, OverlongBufferRead>()

/**
 * verl's `dapo` manager: scores like `naive` and adds the penalty for overlong responses. The extra info keeps the
 * scorer's score. With an enabled penalty, a sample without a known length fails, because its reward would be too high
 * without the penalty.
 */
export const dapoManager: RewardManager = {
  name: 'dapo',

  runRule(sample, reward): RewardOutcome {
    const computed = penaltyFor(sample, reward)
    return 'refused' in computed
      ? computed.refused
      : withPenalty(naiveManager.runRule(sample, reward), computed)
  },

  async run(sample, context): Promise<RewardOutcome> {
    const computed = penaltyFor(sample, context.reward)
    return 'refused' in computed
      ? computed.refused
      : withPenalty(await naiveManager.run(sample, context), computed)
  },
}

type Penalty = ReturnType<typeof penaltyOf>

/** Computes the penalty of a sample before any server is called. The penalty is null if the buffer is disabled. */
function penaltyFor(
  sample: RewardSample,
  { kwargs }: ResolvedReward,
): { refused: RewardOutcome } | { penalty: Penalty | null } {
  let read = buffers.get(kwargs)
  if (read === undefined) {
    read = readOverlongBuffer(kwargs)
    buffers.set(kwargs, read)
  }
  if (!read.ok) return { refused: failed('function_error', read.message) }
  if (read.buffer === null) return { penalty: null }
  const { responseLength } = sample
  if (responseLength === undefined || responseLength === null) {
    const detail = 'responseLength is missing, and the overlong penalty is computed from it'
    return { refused: failed('function_error', detail) }
  }
  return { penalty: penaltyOf(read.buffer, responseLength) }
}

function withPenalty(
  outcome: RewardOutcome,
  { penalty }: { penalty: Penalty | null },
): RewardOutcome {
  if (!outcome.ok || penalty === null) return outcome
  const { score: rawScore, attempts } = outcome
  const score = rawScore + penalty.penalty
  if (!Number.isFinite(score)) {
    return { ...failed('non_finite', `the overlong penalty made the score ${score}`), attempts }
  }
  const extra = penalty.extra === null ? outcome.extra : { ...outcome.extra, ...penalty.extra }
  return { ...outcome, score, rawScore, extra }
}

function failed(reason: 'function_error' | 'non_finite', detail: string) {
  return { ok: false as const, reason, detail, attempts: null }
}
