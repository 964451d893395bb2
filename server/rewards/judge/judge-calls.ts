import type { JudgeTemplate } from './judge-template.ts'

/** Calls that a judge's template makes for a sample, as it is stored with a batch: one a vote, two where orders are swapped. */
export function callsOfJudge(stored: Record<string, unknown>): number {
  const { votes, kind, pair } = stored as JudgeTemplate
  return votes.k * (kind === 'pair' && pair.swap ? 2 : 1)
}
