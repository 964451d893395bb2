import type { JudgeTemplate } from './judge-template.ts'

/** Number of calls that a stored judge template makes per sample: one per vote, two with swapped orders. */
export function callsOfJudge(stored: Record<string, unknown>): number {
  const { votes, kind, pair } = stored as JudgeTemplate
  return votes.k * (kind === 'pair' && pair.swap ? 2 : 1)
}
