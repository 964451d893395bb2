import type { PlannedColumn, PlannedStrategy } from '../../server/wire/planner.ts'
import type { Strategy } from '../../server/wire/strategies.ts'
import { durationText, formatCount, formatPercent, quantityText } from '../format/numbers.ts'

/** What a strategy is called, alone and in a sentence after "with", and what it does. */
export const STRATEGY_WORDS: Record<Strategy, { label: string; within: string; about: string }> = {
  barrier: {
    label: 'Barrier',
    within: 'a barrier',
    about: 'roll out, wait for every reward, train',
  },
  streaming: {
    label: 'Streaming',
    within: 'streaming',
    about: 'each sample is scored as its rollout ends',
  },
  pipeline: {
    label: 'Mini-batch pipeline',
    within: 'the mini-batch pipeline',
    about: 'train on a mini-batch as soon as enough groups are complete',
  },
  off_policy: {
    label: 'One step off-policy',
    within: 'one step off-policy',
    about: 'the next rollout goes first; rewards are waited for a step later',
  },
  both: {
    label: 'Both',
    within: 'both strategies',
    about: 'one step ahead, and mini-batch by mini-batch',
  },
  all: {
    label: 'Both, streamed',
    within: 'both strategies and streaming',
    about: 'and each sample is scored as its rollout ends',
  },
}

/** A step's time: seconds up to two hours, since steps are compared in them. */
export function stepText(ms: number): string {
  if (ms < 60_000 || ms >= 7_200_000) return durationText(ms)
  const seconds = ms / 1_000
  return `${seconds < 1_000 ? seconds.toFixed(1) : formatCount(Math.round(seconds))}\u00a0s`
}

/** A limit as the head of a column. */
export function limitText({ limit, servers }: { limit: number | null; servers: number }): string {
  const at = limit === null ? 'no limit' : `${formatCount(limit)} at once`
  return servers === 1 ? at : `${formatCount(servers)} servers, ${at}`
}

/** What is saved of the barrier's step; what is less than 1 % is none. */
export function savingText({ saving, strategy }: PlannedStrategy): string {
  if (strategy === 'barrier') return 'the baseline'
  if (Math.abs(saving) < 0.01) return 'no gain'
  const share = quantityText(formatPercent(Math.abs(saving)))
  return saving > 0 ? `${share} less` : `${share} more`
}

/** The answer in words. */
export function verdictOf(column: PlannedColumn): { title: string; detail: string } {
  const barrier = column.strategies.find(({ strategy }) => strategy === 'barrier')
  const best = column.strategies.find(({ strategy }) => strategy === column.best)
  if (barrier === undefined || best === undefined) return { title: '', detail: '' }
  const under = column.limit === null ? 'Without a limit' : `With ${limitText(column)}`
  if (column.noGain) {
    return {
      title: `${under}: no gain.`,
      detail:
        column.boundBy === 'rewards'
          ? `Rewards alone need ${stepText(column.boundMs)} a step: no arrangement hides that. More places would.`
          : `Rewards cost ${stepText(barrier.waitMs)} of a step of ${stepText(barrier.stepMs)}: no arrangement saves 1 % of it. A barrier is as good as any.`,
    }
  }
  const over = best.stepMs / column.boundMs - 1
  const bound =
    column.boundBy === 'rewards'
      ? 'the rewards need that long at so many at once: only more places make a step shorter'
      : 'it is the trainer’s own work'
  return {
    title: `${under}, a step takes ${stepText(best.stepMs)} with ${STRATEGY_WORDS[column.best].within} instead of ${stepText(barrier.stepMs)}: ${savingText(best)}.`,
    detail:
      over < 0.01
        ? `No arrangement takes less than ${stepText(column.boundMs)}: ${bound}.`
        : `${stepText(best.waitMs)} of it is still waiting. No arrangement takes less than ${stepText(column.boundMs)}: ${bound}.`,
  }
}
