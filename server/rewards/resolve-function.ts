import type { FunctionRef } from '../contract/resolved-reward.ts'
import { RewardOpsError } from '../errors.ts'
import { type FunctionVersion, versionKey } from './functions/accepted-functions.ts'
import { postProcesses } from './functions/group-calls.ts'
import type { ResolveContext, Scorer, ScorerSpec } from './resolve-scorer.ts'

/** What a function is called with beside its kwargs: a kwarg of such a name would not arrive. */
const TAKEN = new Set([
  ...['dataSource', 'data_source', 'solutionStr', 'solution_str', 'groundTruth', 'ground_truth'],
  ...['extraInfo', 'extra_info', 'prompt', 'responseLength', 'response_length'],
])

/**
 * A function of the user's own as a scorer: the version that it is now, with the kwargs of both places.
 * @param at where the reward is in what was sent
 * Throws `invalid_function`, `invalid_kwargs`.
 */
export function resolveOwnFunction(
  at: string,
  named: { path: string; name?: string | undefined; kwargs?: Record<string, unknown> | undefined },
  { kwargs }: Pick<ScorerSpec, 'kwargs'>,
  context: ResolveContext,
): Scorer {
  const own = named.kwargs ?? {}
  for (const key of Object.keys(own)) {
    if (!Object.hasOwn(kwargs, key)) continue
    throw new RewardOpsError(
      'invalid_kwargs',
      `kwarg "${key}" is in ${at}.kwargs and in ${at}.function.kwargs.`,
    )
  }
  const all = { ...kwargs, ...own }
  for (const key of Object.keys(all)) {
    if (!TAKEN.has(key)) continue
    throw new RewardOpsError(
      'invalid_kwargs',
      `kwarg "${key}" has the name of what a function is given of its sample.`,
    )
  }
  const { hash, path, methods } = versionOf(`${at}.function`, 'function', named, context)
  const name = named.name ?? null
  const ref = { hash, path, name, kwargs: all, ...(methods.length > 0 ? { methods } : {}) }
  return {
    kind: 'function',
    model: null,
    kwargs: {},
    function: ref,
    ...(postProcesses(methods) ? { postProcess: ref } : {}),
    title: name === null ? path : `${path}:${name}`,
  }
}

/** A manager class of the user's own, as the worker calls it. Throws `invalid_function`. */
export function resolveOwnManager(
  named: { path: string; name?: string | undefined; kwargs?: Record<string, unknown> | undefined },
  context: ResolveContext,
): FunctionRef {
  const { hash, path } = versionOf('reward.manager', 'manager', named, context)
  return { hash, path, name: named.name ?? null, kwargs: named.kwargs ?? {} }
}

function versionOf(
  at: string,
  role: Parameters<typeof versionKey>[0],
  { path, name }: { path: string; name?: string | undefined },
  { functions }: ResolveContext,
): FunctionVersion {
  const version = functions?.get(versionKey(role, path, name))
  if (version) return version
  throw new RewardOpsError('invalid_function', `${at}.path "${path}" was not looked at.`)
}
