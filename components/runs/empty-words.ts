import type { RunDto } from '../../server/wire/runs.ts'
import { formatCount, plural } from '../format/numbers.ts'

type Steps = Pick<RunDto, 'steps'>['steps']

/** Why there is no spread of rewards to draw. */
export function noSpreadText(steps: Steps): string {
  const ended = steps.filter(({ n }) => n !== null)
  if (ended.length === 0) return 'no step has ended yet'
  const samples = ended.reduce((sum, step) => sum + step.samples, 0)
  const failed = ended.reduce((sum, step) => sum + step.failed, 0)
  const of = `of ${plural(samples, 'sample')} in ${plural(ended.length, 'step that has', 'steps that have')} ended`
  return failed === samples
    ? `no score: all ${of.slice(3)} failed`
    : `no score ${of}: ${formatCount(failed)} failed, the others were substituted or dropped`
}

/** Why there is no group without signal to draw. */
export function noSignalsText(steps: Steps): string {
  const groups = steps.reduce(
    (sum, { groupSignals }) => sum + Object.values(groupSignals ?? {}).reduce((a, b) => a + b, 0),
    0,
  )
  return groups === 0 ? 'no group has been looked at yet' : `none of ${plural(groups, 'group')}`
}

/** Why there is no failure to draw. */
export function noFailuresText(steps: Steps): string {
  const ended = steps.reduce((sum, { scored, failed }) => sum + scored + failed, 0)
  return ended === 0 ? 'no sample has ended yet' : `none of ${plural(ended, 'sample')} that ended`
}
