import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { TriedDto, TriedEnd } from '../../contract/rewards.ts'
import { postProcessGroup } from '../functions/group-calls.ts'
import type {
  RewardContext,
  RewardOutcome,
  RewardSample,
  RewardTools,
} from '../managers/manager.ts'
import { managerNamed } from '../managers/registry.ts'
import { callOptions } from '../scoring/by-function.ts'
import { answered, recordTools } from './recorded-tools.ts'
import { stepsOf } from './scorer-steps.ts'
import { failedEnd } from './tried-end.ts'
import { whyManager, whyReward } from './why.ts'

/**
 * Scores one sample as in a batch with this reward, and explains the result in steps. The manager scores once, with
 * tools that record its calls. The steps come from the recorded calls; rules that call no service are run again.
 */
export async function trySample(
  sample: RewardSample,
  resolved: { reward: ResolvedReward; rewardName: string },
  tools: RewardTools,
  options: { signal: AbortSignal | undefined; deadlineMs: number },
): Promise<TriedDto> {
  const { reward, rewardName } = resolved
  const manager = managerNamed(reward.manager)
  const { tools: recorded, calls } = recordTools(tools)
  const startedAt = performance.now()
  const startedAtMs = Date.now()
  const context: RewardContext = {
    reward,
    ...recorded,
    signal: options.signal,
    urgent: true,
    run: 'playground',
    group: undefined,
    key: 'try',
    priority: 0,
    deadlineMs: options.deadlineMs,
  }
  const outcome =
    reward.kind === 'rule' ? manager.runRule(sample, reward) : await manager.run(sample, context)
  const group = await postProcessed(outcome, sample, context)
  const tookMs = performance.now() - startedAt
  const steps = await stepsOf(sample, reward, {
    calls: answered(calls),
    startedAtMs,
    outcome,
    requestFor: (id, input) => tools.router.requestFor(id, input),
  })
  return {
    rewardName,
    resolved: {
      kind: reward.kind,
      manager: reward.manager,
      why: whyReward(reward, sample),
      kwargs: reward.kwargs,
    },
    steps,
    manager: managerOf(outcome, reward, sample),
    group,
    rewardExtraInfo: outcome.ok ? outcome.extra : null,
    end: group?.end ?? (outcome.ok ? { ok: true, score: outcome.score } : failedEnd(outcome)),
    tookMs,
  }
}

async function postProcessed(
  outcome: RewardOutcome,
  { dataSource }: RewardSample,
  context: RewardContext,
): Promise<TriedDto['group']> {
  const { postProcess: ref } = context.reward
  if (ref === undefined || !outcome.ok) return null
  const { score: before, extra } = outcome
  const member = { index: 0, dataSource, score: before, rewardExtraInfo: extra ?? {} }
  const processed = await postProcessGroup(
    context.functions,
    ref,
    { uid: 'try', members: [member] },
    callOptions(context),
  )
  const end: TriedEnd = processed.ok
    ? { ok: true, score: processed.scores[0] as number }
    : failedEnd(processed)
  return { path: ref.path, before, end }
}

function managerOf(
  outcome: RewardOutcome,
  reward: ResolvedReward,
  sample: RewardSample,
): TriedDto['manager'] {
  if (!outcome.ok) return null
  const { score } = outcome
  const rawScore = outcome.rawScore ?? score
  const why = whyManager(reward, sample)
  return { name: reward.manager, rawScore, score, added: score - rawScore, why }
}
