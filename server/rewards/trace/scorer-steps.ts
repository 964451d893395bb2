import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type {
  TriedComponent,
  TriedFunction,
  TriedModel,
  TriedStep,
} from '../../contract/rewards.ts'
import type { RewardRouter } from '../../router/router-types.ts'
import { callsPerSample, type JudgeTemplate } from '../judge/judge-template.ts'
import type { RewardOutcome, RewardSample } from '../managers/manager.ts'
import { judgeStep } from './judge-step.ts'
import type { RecordedCalls, RecordedFunction, RecordedScore } from './recorded-tools.ts'
import { ruleStep } from './rule-step.ts'
import { attemptsOf, failedEnd, scorerEnd } from './tried-end.ts'

export interface Tried {
  calls: RecordedCalls
  startedAtMs: number
  outcome: RewardOutcome
  requestFor: RewardRouter['requestFor']
}

const MAX_BODY_CHARS = 20_000

/** Returns the steps of the scorer, and removes their calls from `tried.calls`. */
export async function stepsOf(
  sample: RewardSample,
  reward: ResolvedReward,
  tried: Tried,
): Promise<TriedStep[]> {
  const { calls } = tried
  switch (reward.kind) {
    case 'rule':
    case 'service':
      return [await ruleStep(sample, reward, tried.outcome)]
    case 'model':
      if (reward.judge !== undefined) {
        const template = reward.judge as unknown as JudgeTemplate
        const recorded = calls.chats.splice(0, callsPerSample(template))
        return recorded.length === 0
          ? []
          : [await judgeStep(sample, template, recorded, tried.startedAtMs)]
      }
      return calls.scores.splice(0, 1).map((call) => modelStep(call, tried))
    case 'function': {
      const [called] = calls.functions.splice(0, 1)
      if (called === undefined) return []
      const { wraps } = reward
      const own = functionStep(called)
      if (wraps === undefined) return [own]
      const recorded = called.inner.map(({ sample: inner, outcome }) =>
        stepsOf(inner, wraps, { ...tried, outcome }),
      )
      return [...(await Promise.all(recorded)).flat(), own]
    }
    case 'combine':
      return [await compositeStep(sample, reward, tried)]
  }
}

function modelStep({ request, result }: RecordedScore, tried: Tried): TriedModel {
  const last = result.attempts.findLast((one) => one.outcome === 'ok') ?? result.attempts.at(-1)
  const sent = last === undefined ? null : tried.requestFor(last.serverId, request.input)
  return {
    kind: 'model',
    model: request.model,
    serverName: last?.serverName ?? null,
    request:
      sent === null
        ? null
        : {
            engine: sent.engine,
            path: sent.path,
            body: sent.body.slice(0, MAX_BODY_CHARS),
            cut: sent.body.length > MAX_BODY_CHARS,
          },
    promptTokens: result.ok ? result.promptTokens : null,
    tokenScores: (result.ok && result.tokenScores) || null,
    attempts: attemptsOf(result.attempts, tried.startedAtMs),
    end: result.ok ? { ok: true, score: result.score } : failedEnd(result),
  }
}

function functionStep({ role, ref, kwargs, outcome, tookMs }: RecordedFunction): TriedFunction {
  return {
    kind: 'function',
    role,
    path: ref.path,
    name: ref.name,
    hash: ref.hash.slice(0, 12),
    kwargs: { ...kwargs, ...ref.kwargs },
    tookMs,
    extra: outcome.ok ? outcome.extra : null,
    end: scorerEnd(outcome),
  }
}

/**
 * The components of a composite reward. They start in order, so the first recorded call to a shared model belongs to
 * the first component.
 */
async function compositeStep(
  sample: RewardSample,
  reward: ResolvedReward,
  tried: Tried,
): Promise<TriedStep> {
  const { calls, outcome } = tried
  const components: TriedComponent[] = []
  for (const [at, component] of (reward.components ?? []).entries()) {
    const own: RecordedCalls = {
      scores: takeOf(calls.scores, (one) => one.request.model === component.reward.model),
      chats: takeOf(calls.chats, (one) => one.request.model === component.reward.model),
      functions: takeOf(
        calls.functions,
        (one) =>
          one.ref.hash === component.reward.function?.hash &&
          one.ref.name === component.reward.function.name,
      ),
    }
    const ofComponent = componentOutcome(outcome, component.name, at)
    const steps = await stepsOf(sample, component.reward, {
      ...tried,
      outcome: ofComponent,
      calls: own,
    })
    calls.scores.push(...own.scores)
    calls.chats.push(...own.chats)
    calls.functions.push(...own.functions)
    const end = steps[0]?.end ?? scorerEnd(ofComponent)
    components.push({ name: component.name, weight: component.weight, steps, end })
  }
  return { kind: 'composite', components, end: scorerEnd(outcome) }
}

const NOT_RUN: RewardOutcome = {
  ok: false,
  reason: 'cancelled',
  detail: 'not run: another component failed',
  attempts: null,
}

/**
 * Returns a component's outcome. For a composite reward that was scored, the outcome is read from the extra info:
 * `name` holds the component's score, `name/key` the component's own keys.
 */
function componentOutcome(sum: RewardOutcome, name: string, at: number): RewardOutcome {
  if (!sum.ok) return sum.components?.[at] ?? NOT_RUN
  const extra = sum.extra ?? {}
  const own = Object.entries(extra)
    .filter(([key]) => key.startsWith(`${name}/`))
    .map(([key, value]) => [key.slice(name.length + 1), value])
  return {
    ...sum,
    score: Number(extra[name]),
    rawScore: Number(extra[name]),
    extra: Object.fromEntries(own),
  }
}

function takeOf<T>(list: T[], fits: (one: T) => boolean): T[] {
  const taken = list.filter(fits)
  const left = list.filter((one) => !fits(one))
  list.splice(0, list.length, ...left)
  return taken
}
