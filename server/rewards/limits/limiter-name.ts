import { modelsOf, type ResolvedReward } from '../../contract/resolved-reward.ts'

/**
 * The limiter of a reward that names none: one for each model, since it is the models' provider that limits; else one
 * for each function; else one for the rules. Upstream has one for each process, whatever is scored.
 */
export function limiterNameOf(reward: ResolvedReward): string {
  const models = modelsOf(reward)
  if (models.length > 0) return `model:${models.join('+')}`
  const functions = functionsOf(reward)
  if (functions.length > 0) return `function:${functions.join('+')}`
  return `rules:${rulesOf(reward).join('+')}`
}

function functionsOf(reward: ResolvedReward): string[] {
  const parts = (reward.components ?? []).flatMap((part) => functionsOf(part.reward))
  const { function: own } = reward
  const name = own && (own.name === null ? own.path : `${own.path}#${own.name}`)
  return [...new Set(name === undefined ? parts : [name, ...parts])]
}

function rulesOf(reward: ResolvedReward): string[] {
  if (reward.components === undefined) return [reward.rule ?? 'by data source']
  return [...new Set(reward.components.flatMap((part) => rulesOf(part.reward)))]
}
