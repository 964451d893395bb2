import { describeIssues } from '../contract/describe-issues.ts'
import type { ResolvedReward } from '../contract/resolved-reward.ts'
import type { RewardComponent } from '../contract/trainer.ts'
import { RewardOpsError } from '../errors.ts'
import type { FunctionVersion } from './functions/accepted-functions.ts'
import { BUILTIN_JUDGES } from './judge/builtin-templates.ts'
import { JudgeTemplate } from './judge/judge-template.ts'
import { suggest } from './nearest-name.ts'
import { resolveOwnFunction } from './resolve-function.ts'
import { resolveNamedRule, resolveRules } from './resolve-rules.ts'

/** What acceptance needs to know beside the request. */
export interface ResolveContext {
  /** The functions of the user's own that the request names, as they are now (`AcceptedFunctions.lookAt`). */
  functions?: ReadonlyMap<string, FunctionVersion>
  /** Discriminative reward models with a registered server. */
  models: readonly string[]
  /** Generative ones: judges, which need a template. */
  judges?: readonly string[]
  /** Models none of whose servers can be put to sleep. */
  sleepless?: readonly string[]
}

/** What scores a sample, or a part of its reward: of a `ResolvedReward` what is not the manager's or the batch's. */
export type Scorer = Pick<
  ResolvedReward,
  'kind' | 'model' | 'kwargs' | 'rule' | 'judge' | 'function' | 'postProcess'
> & {
  /** What scores, for people. */
  title: string
}

/** What is asked for; `kwargs` without those that the manager took. */
export type ScorerSpec = Pick<RewardComponent, 'function' | 'model' | 'judge' | 'kwargs'>

/**
 * Resolves what scores: a reward model if one is named, else the function or rule that is named, else the rule each
 * data source selects.
 * @param at where it is in what was sent, e.g. `reward` or `reward.combine[0].reward`
 * Throws RewardOpsError naming what exists when a model or rule does not.
 */
export function resolveScorer(
  at: string,
  spec: ScorerSpec,
  dataSources: readonly string[],
  context: ResolveContext,
): Scorer {
  if (spec.judge !== null && spec.model === null) {
    throw new RewardOpsError('invalid_input', `${at}.judge: needs ${at}.model, a generative one.`)
  }
  if (spec.function !== null && spec.model !== null) {
    throw new RewardOpsError(
      'invalid_input',
      `${at}.function and ${at}.model are both given: one of them scores.`,
    )
  }
  if (spec.model !== null) return resolveModel(at, spec, spec.model, context)
  if (spec.function?.path !== undefined) {
    return resolveOwnFunction(at, { ...spec.function, path: spec.function.path }, spec, context)
  }
  const scored = spec.function
    ? resolveNamedRule(at, spec.function.name, spec.kwargs, spec.function.kwargs ?? {})
    : resolveRules(dataSources, spec.kwargs)
  return { ...scored, model: null }
}

function resolveModel(
  at: string,
  spec: ScorerSpec,
  model: string,
  context: ResolveContext,
): Scorer {
  const judge = resolveJudge(at, spec.judge, model, context)
  if (judge === null && !context.models.includes(model)) {
    throw new RewardOpsError(
      'unknown_model',
      `${at}.model "${model}" has no registered server. ${suggest(model, [...context.models, ...(context.judges ?? [])])}`,
    )
  }
  const [key] = Object.keys(spec.kwargs)
  if (key !== undefined) {
    throw new RewardOpsError(
      'invalid_kwargs',
      `${at}.kwargs.${key}: a reward model takes no kwargs of its own.`,
    )
  }
  return { kind: 'model', model, kwargs: {}, title: model, ...(judge === null ? {} : { judge }) }
}

/** How a generative model judges; null for a discriminative one. */
function resolveJudge(
  at: string,
  judge: ScorerSpec['judge'],
  model: string,
  context: ResolveContext,
): JudgeTemplate | null {
  const isJudge = !context.models.includes(model) && context.judges?.includes(model) === true
  const names = [...BUILTIN_JUDGES.keys()]
  if (!isJudge) {
    if (judge === null || !context.models.includes(model)) return null
    throw new RewardOpsError('invalid_input', `${at}.judge: "${model}" gives scores by itself.`, {
      hint: `Leave ${at}.judge out, or name a generative model.`,
    })
  }
  if (judge === null) {
    throw new RewardOpsError(
      'invalid_input',
      `${at}.judge: "${model}" is generative, and how it judges was not said.`,
      { hint: `Give ${at}.judge: a template, or one of ${names.join(', ')}.` },
    )
  }
  if (typeof judge === 'string') {
    const known = BUILTIN_JUDGES.get(judge)
    if (known) return known
    throw new RewardOpsError(
      'invalid_input',
      `${at}.judge: there is no template "${judge}". ${suggest(judge, names)}`,
    )
  }
  const parsed = JudgeTemplate.safeParse(judge)
  if (parsed.success) return parsed.data
  throw new RewardOpsError('invalid_input', `${at}.judge.${describeIssues(parsed.error)}`)
}
