import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { RewardSample } from '../managers/manager.ts'
import { readOverlongBuffer } from '../managers/overlong-buffer.ts'
import { asyncRuleForDataSource, ruleForDataSource } from '../rules/registry.ts'

export function whyReward(reward: ResolvedReward, sample: RewardSample): string {
  switch (reward.kind) {
    case 'model':
      return reward.judge === undefined
        ? `reward.model names ${reward.model}: one of its servers returns the score.`
        : `reward.model names ${reward.model}, which is generative: the judge template ${String(reward.judge.name)} builds the prompt, and the reply is parsed.`
    case 'function':
      if (reward.wraps !== undefined) {
        return `reward.manager.path names ${reward.function?.path ?? 'a module'}: its class scores with the wrapped reward. ${whyReward(reward.wraps, sample)}`
      }
      return `reward.function.path names ${reward.function?.path ?? 'a module'}: its function scores every sample.`
    case 'combine':
      return 'reward.combine defines a composite reward: the score is the sum of weight × score over its components.'
    default:
      return whyRule(reward, sample.dataSource)
  }
}

function whyRule({ rule: named }: ResolvedReward, dataSource: string): string {
  if (named !== undefined) {
    return `reward.function.name selects rule ${named} for every data source.`
  }
  const rule = ruleForDataSource(dataSource) ?? asyncRuleForDataSource(dataSource)
  if (rule === undefined) return `No rule scores data source "${dataSource}".`
  const prefix = rule.dataSources.includes(dataSource)
    ? undefined
    : rule.dataSources.find((one) => one.endsWith('*') && dataSource.startsWith(one.slice(0, -1)))
  return prefix === undefined
    ? `Data source "${dataSource}" selects rule ${rule.name}.`
    : `Data source "${dataSource}" starts with ${prefix}, which selects rule ${rule.name}.`
}

export function whyManager(reward: ResolvedReward, sample: RewardSample): string {
  switch (reward.manager) {
    case 'dapo':
      return whyOverlong(reward, sample)
    case 'gdpo':
      return `The score of the scorer is unchanged; group advantages are computed from ${(reward.gdpo?.keys ?? []).join(', ')}.`
    case 'rate_limited':
      return `The score of the scorer is unchanged, rate-limited by ${reward.limiter?.name ?? 'its limiter'}.`
    case 'batch':
      return 'The score of the scorer is unchanged. The function is called once per group: here, a group of one.'
    case 'remote':
      return 'The score of the scorer is unchanged. Functions and rules run in a separate process.'
    case 'module':
      return 'The manager class computed the score from the scorer’s score.'
    default:
      return 'The score of the scorer is unchanged.'
  }
}

function whyOverlong(reward: ResolvedReward, sample: RewardSample): string {
  const read = readOverlongBuffer(reward.kwargs)
  if (!read.ok) return read.message
  if (read.buffer === null) {
    return 'overlong_buffer_cfg is not enabled, so there is no length penalty.'
  }
  const { maxResponseLength, bufferLength, penaltyFactor, clamp } = read.buffer
  const n = (count: number) => count.toLocaleString('en-US')
  const from = maxResponseLength - bufferLength
  const length = sample.responseLength ?? 0
  if (length <= from) {
    return `${n(length)} tokens are no more than ${n(from)} (max_resp_len ${n(maxResponseLength)} − len ${n(bufferLength)}): no penalty.`
  }
  const sum = `${n(length - from)} tokens over ${n(from)}: −(${n(length - from)} ÷ ${n(bufferLength)}) × ${penaltyFactor}`
  return clamp && length > maxResponseLength ? `${sum}, clamped at −${penaltyFactor}.` : `${sum}.`
}
