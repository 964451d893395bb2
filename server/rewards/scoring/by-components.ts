import { decimalSum } from '../../contract/decimal-sum.ts'
import { combinedRewards } from '../../contract/part-rewards.ts'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { AttemptRecord } from '../../router/router-types.ts'
import type { RewardContext, RewardOutcome, RewardSample, Verdict } from '../managers/manager.ts'
import { scoreByRule } from './by-rule.ts'

type Component = NonNullable<ResolvedReward['components']>[number]
type ScoreComponent = (sample: RewardSample, context: RewardContext) => Promise<RewardOutcome>

/**
 * Scores a composite reward: its components are scored concurrently, each with its own timeout, and the score is the
 * sum of weight × score. The extra info has each component's score under the component's name, and the component's own
 * extra info as `name/key`. If a component fails, the sample fails with the reason and name of the component, and the
 * other components are cancelled.
 * @param scoreComponent scores one component by its kind
 */
export async function scoreByComponents(
  sample: RewardSample,
  context: RewardContext,
  scoreComponent: ScoreComponent,
): Promise<RewardOutcome> {
  const { signal } = context
  const components = context.reward.components ?? []
  const outcomes = new Array<RewardOutcome>(components.length)
  // Rules are scored first, because no server needs to be called if one of them fails.
  for (const [at, { reward }] of components.entries()) {
    if (reward.kind === 'rule') outcomes[at] = scoreByRule(sample, reward)
  }
  const failed = outcomes.some((outcome) => outcome && !outcome.ok)
  if (!failed) {
    const stop = new AbortController()
    const cancel = () => stop.abort(signal?.reason)
    signal?.addEventListener('abort', cancel, { once: true })
    if (signal?.aborted) cancel()
    await Promise.all(
      components.map(async ({ reward }, at) => {
        if (outcomes[at] !== undefined) return
        const outcome = await scoreComponent(sample, { ...context, reward, signal: stop.signal })
        outcomes[at] =
          !outcome.ok && outcome.reason === 'cancelled' && stop.signal.aborted && !signal?.aborted
            ? { ...outcome, detail: CANCELLED_FOR_OTHER }
            : outcome
        if (!outcome.ok) stop.abort(new Error(CANCELLED_FOR_OTHER))
      }),
    )
    signal?.removeEventListener('abort', cancel)
  }
  return combined(components, outcomes)
}

const CANCELLED_FOR_OTHER = 'another component failed'

function combined(
  components: readonly Component[],
  outcomes: readonly RewardOutcome[],
): RewardOutcome {
  const done = outcomes.filter((outcome) => outcome !== undefined)
  const attempts = attemptsOf(components, outcomes)
  const waits = done.flatMap(({ waitedMs }) => (waitedMs === undefined ? [] : [waitedMs]))
  const counted = components.flatMap(({ reward }, at) =>
    reward.kind === 'rule' || outcomes[at] === undefined ? [] : [outcomes[at].tokens],
  )
  const spent = {
    attempts,
    // The sample waited until its first component began.
    ...(waits.length === 0 || waits.length < done.length ? {} : { waitedMs: Math.min(...waits) }),
    ...(counted.length > 0 && counted.every((n) => n !== undefined)
      ? { tokens: counted.reduce((sum, n) => sum + n, 0) }
      : {}),
  }
  const failures = components.flatMap(({ name }, at) => {
    const outcome = outcomes[at]
    const is = outcome !== undefined && !outcome.ok && outcome.detail !== CANCELLED_FOR_OTHER
    return is ? [{ name, reason: outcome.reason, detail: outcome.detail }] : []
  })
  const [first] = failures
  if (first !== undefined) {
    const detail = failures.map((one) => `component "${one.name}": ${one.detail}`).join('; ')
    return { ok: false, reason: first.reason, detail, components: outcomes, ...spent }
  }
  const terms: number[] = []
  const extra: Record<string, unknown> = {}
  for (const [at, { name, weight }] of components.entries()) {
    const outcome = outcomes[at]
    if (!outcome?.ok) continue
    terms.push(weight * outcome.score)
    extra[name] = outcome.score
    for (const [key, value] of Object.entries(outcome.extra ?? {})) extra[`${name}/${key}`] = value
  }
  const score = decimalSum(terms)
  if (!Number.isFinite(score)) {
    const detail = `the composite reward is ${score}`
    return { ok: false, reason: 'non_finite', detail, components: outcomes, ...spent }
  }
  const verdict = combinedVerdict(components, outcomes)
  const parts = components.flatMap(({ name, weight }, at) => {
    const outcome = outcomes[at]
    return outcome?.ok && outcome.rewards ? [{ name, weight, rewards: outcome.rewards }] : []
  })
  const rewards = parts.length === 0 ? {} : { rewards: combinedRewards(parts) }
  return { ok: true, score, extra, ...(verdict && { verdict }), ...rewards, ...spent }
}

/**
 * Returns the verdicts of the components. If there are several, each is preceded by the name of its component, and the
 * extracted answer is that of the component with the largest weight.
 */
function combinedVerdict(
  components: readonly Component[],
  outcomes: readonly RewardOutcome[],
): Verdict | undefined {
  const given = components.flatMap(({ name, weight }, at) => {
    const outcome = outcomes[at]
    return outcome?.ok && outcome.verdict ? [{ name, weight, ...outcome.verdict }] : []
  })
  const [first] = given
  if (first === undefined) return undefined
  if (given.length === 1) return { verdict: first.verdict, extracted: first.extracted }
  const main = given.reduce((a, b) => (Math.abs(b.weight) > Math.abs(a.weight) ? b : a))
  return {
    verdict: given.map(({ name, verdict }) => `${name}: ${verdict}`).join(', '),
    extracted: main.extracted,
  }
}

function named(attempt: AttemptRecord, component: string): AttemptRecord {
  return attempt.outcome === 'ok'
    ? attempt
    : {
        ...attempt,
        detail: `component "${component}"${attempt.detail === null ? '' : `: ${attempt.detail}`}`,
      }
}

function attemptsOf(
  components: readonly Component[],
  outcomes: readonly RewardOutcome[],
): AttemptRecord[] | null {
  const recorded = components.flatMap(({ name }, at) => {
    const attempts = outcomes[at]?.attempts
    return attempts ? [attempts.map((attempt) => named(attempt, name))] : []
  })
  return recorded.length === 0
    ? null
    : recorded.flat().sort((one, other) => one.startedAtMs - other.startedAtMs)
}
