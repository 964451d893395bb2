import type { PlannedColumn, PlannedStrategy, PlannerDto } from '../../server/contract/planner.ts'
import type { Strategy } from '../../server/contract/strategies.ts'
import { durationText, formatCount, percentText } from '../format/numbers.ts'
import { ASYNC_AGENT_EXPERIMENT } from './planner-url.ts'

/** The label of each strategy, its wording after “with” in a sentence, and its definition. */
export const STRATEGY_WORDS: Record<Strategy, { label: string; within: string; about: string }> = {
  barrier: {
    label: 'Barrier',
    within: 'a barrier',
    about: 'Roll out, wait for all rewards, train',
  },
  streaming: {
    label: 'Streaming',
    within: 'streaming',
    about: 'Each sample is scored as soon as its rollout ends',
  },
  pipeline: {
    label: 'Mini-batch pipeline',
    within: 'the mini-batch pipeline',
    about: 'Train on a mini-batch once enough groups are complete',
  },
  off_policy: {
    label: 'One step off-policy',
    within: 'one step off-policy',
    about: 'Roll out the next step before training, so rewards may take a step longer',
  },
  both: {
    label: 'Off-policy + pipeline',
    within: 'one step off-policy and the mini-batch pipeline',
    about: 'One step off-policy, with the mini-batch pipeline',
  },
  all: {
    label: 'All combined',
    within: 'all strategies combined',
    about: 'One step off-policy, mini-batch pipeline and streaming',
  },
}

export const RECOMMENDED =
  'The recommended strategy is the simplest one whose step time exceeds the shortest by less than 1\u00a0% of the barrier’s step time. If no strategy saves 1\u00a0%, the barrier is recommended.'

/** Formats a step time: in seconds up to two hours, so that step times are easy to compare. */
export function stepText(ms: number): string {
  if (ms < 60_000 || ms >= 7_200_000) return durationText(ms)
  const seconds = ms / 1_000
  return `${seconds < 1_000 ? seconds.toFixed(1) : formatCount(Math.round(seconds))}\u00a0s`
}

export function limitText({ limit, servers }: { limit: number | null; servers: number }): string {
  const at = limit === null ? 'No limit' : `${formatCount(limit)} concurrent`
  return servers === 1 ? at : `${formatCount(servers)} servers, ${at.toLowerCase()}`
}

function underText({ limit, servers }: { limit: number | null; servers: number }): string {
  if (limit === null) return 'Without a limit'
  const rewards = `${formatCount(limit)} concurrent ${limit === 1 ? 'reward' : 'rewards'}`
  return servers === 1
    ? `With ${rewards}`
    : `With ${formatCount(servers)} servers and ${rewards} each`
}

export function savingText({ saving, strategy }: PlannedStrategy): string {
  if (strategy === 'barrier') return 'Baseline'
  if (Math.abs(saving) < 0.01) return 'No gain'
  const share = percentText(Math.abs(saving))
  return saving > 0 ? `${share} less` : `${share} more`
}

export function verdictOf(column: PlannedColumn): { title: string; detail: string } {
  const barrier = column.strategies.find(({ strategy }) => strategy === 'barrier')
  const best = column.strategies.find(({ strategy }) => strategy === column.best)
  if (barrier === undefined || best === undefined) return { title: '', detail: '' }
  const under = underText(column)
  if (column.noGain) {
    return {
      title: `${under}, overlapping brings no gain.`,
      detail:
        column.boundBy === 'rewards'
          ? `Rewards need at least ${stepText(column.boundMs)} per step under every strategy. More concurrency shortens the step.`
          : `The reward wait takes ${stepText(barrier.waitMs)} of the ${stepText(barrier.stepMs)} step time. No strategy saves 1 % or more, so a barrier is sufficient.`,
    }
  }
  const over = best.stepMs / column.boundMs - 1
  const bound =
    column.boundBy === 'rewards'
      ? 'rewards need at least this long at this concurrency, so only more concurrency shortens the step'
      : 'the trainer time per step'
  return {
    title: `${under}, the step time is ${stepText(best.stepMs)} with ${STRATEGY_WORDS[column.best].within} instead of ${stepText(barrier.stepMs)}: ${savingText(best)}.`,
    detail:
      over < 0.01
        ? `The lower bound is ${stepText(column.boundMs)}: ${bound}.`
        : `Of this, ${stepText(best.waitMs)} is reward wait. The lower bound is ${stepText(column.boundMs)}: ${bound}.`,
  }
}

export function originText({
  phases,
  phasesFrom,
  limitsFrom,
  columns,
}: Pick<PlannerDto, 'phases' | 'phasesFrom' | 'limitsFrom' | 'columns'>): string {
  const { rollout, logprob, update, limits, servers } = ASYNC_AGENT_EXPERIMENT
  const times = [phases.rolloutMs, phases.logProbMs, phases.updateMs].map((ms) => `${ms / 1_000}`)
  const isUsual = times.join() === [rollout, logprob, update].join()
  const trainer =
    phasesFrom === 'record'
      ? 'Trainer times are taken from the recorded steps.'
      : phasesFrom === 'assumption' || isUsual
        ? 'Trainer times are assumed. Enter those of your trainer.'
        : 'Trainer times are as entered.'
  const planned = [...new Set(columns.map(({ limit }) => limit ?? 'none'))].join(', ')
  const isUsualConcurrency =
    planned === limits && columns.every((column) => `${column.servers}` === servers)
  if (limitsFrom === 'record')
    return `${trainer} Concurrency is the highest number of rewards that a recorded batch had in flight.`
  return `${trainer} Concurrency is ${limitsFrom === 'assumption' || isUsualConcurrency ? 'assumed' : 'as entered'}.`
}
