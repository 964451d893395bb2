import type { ResolvedReward } from '../../wire/resolved-reward.ts'
import type { RewardSample } from '../managers/manager.ts'
import { readOverlongBuffer } from '../managers/overlong-buffer.ts'
import { asyncRuleForDataSource, ruleForDataSource } from '../rules/registry.ts'

/** Why this scores the sample, in a sentence. */
export function whyReward(reward: ResolvedReward, sample: RewardSample): string {
  switch (reward.kind) {
    case 'model':
      return reward.judge === undefined
        ? `reward.model names ${reward.model}: one of its servers is asked for the score.`
        : `reward.model names ${reward.model}, which is generative: the template ${String(reward.judge.name)} asks it, and its reply is read.`
    case 'function':
      if (reward.wraps !== undefined) {
        return `reward.manager.path names ${reward.function?.path ?? 'a module'}: its class scores by what it wraps. ${whyReward(reward.wraps, sample)}`
      }
      return `reward.function.path names ${reward.function?.path ?? 'a module'}: its function scores every sample.`
    case 'combine':
      return 'reward.combine names the parts: the score is the sum of weight × score over them.'
    default:
      return whyRule(reward, sample.dataSource)
  }
}

function whyRule({ rule: named }: ResolvedReward, dataSource: string): string {
  if (named !== undefined) {
    return `reward.function.name chose rule ${named}, whatever the data source.`
  }
  const rule = ruleForDataSource(dataSource) ?? asyncRuleForDataSource(dataSource)
  if (rule === undefined) return `No rule scores data source "${dataSource}".`
  const prefix = rule.dataSources.includes(dataSource)
    ? undefined
    : rule.dataSources.find((one) => one.endsWith('*') && dataSource.startsWith(one.slice(0, -1)))
  return prefix === undefined
    ? `Data source "${dataSource}" selects rule ${rule.name}.`
    : `Data source "${dataSource}" begins as ${prefix} does, which selects rule ${rule.name}.`
}

/** What the manager does with the scorer's score, in a sentence. */
export function whyManager(reward: ResolvedReward, sample: RewardSample): string {
  switch (reward.manager) {
    case 'dapo':
      return whyOverlong(reward, sample)
    case 'gdpo':
      return `The score is the scorer’s; the advantages of a group are computed from ${(reward.gdpo?.keys ?? []).join(', ')}.`
    case 'rate_limited':
      return `The score is the scorer’s, given within the limits of ${reward.limiter?.name ?? 'its limiter'}.`
    case 'batch':
      return 'The score is the scorer’s, called once with the whole group: here, a group of one.'
    case 'remote':
      return 'The score is the scorer’s, computed in a process of its own where it is a function or a rule.'
    case 'module':
      return 'The score is what the class made of the scorer’s.'
    default:
      return 'The score is the scorer’s.'
  }
}

function whyOverlong(reward: ResolvedReward, sample: RewardSample): string {
  const read = readOverlongBuffer(reward.kwargs)
  if (!read.ok) return read.message
  if (read.buffer === null) {
    return 'overlong_buffer_cfg is not enabled: nothing is added for the length.'
  }
  const { maxResponseLength, bufferLength, penaltyFactor, clamp } = read.buffer
  const n = (count: number) => count.toLocaleString('en-US')
  const from = maxResponseLength - bufferLength
  const length = sample.responseLength ?? 0
  if (length <= from) {
    return `${n(length)} tokens are no more than ${n(from)} (max_resp_len ${n(maxResponseLength)} − len ${n(bufferLength)}): no penalty.`
  }
  const sum = `${n(length - from)} tokens over ${n(from)}: −(${n(length - from)} ÷ ${n(bufferLength)}) × ${penaltyFactor}`
  return clamp && length > maxResponseLength ? `${sum}, held at −${penaltyFactor}.` : `${sum}.`
}
