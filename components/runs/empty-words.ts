import type { RunDto } from '../../server/contract/runs.ts'
import { formatCount, plural } from '../format/numbers.ts'

type Steps = Pick<RunDto, 'steps'>['steps']

export function noSpreadText(steps: Steps): string {
  const ended = steps.filter(({ n }) => n !== null)
  if (ended.length === 0) return 'No steps have ended yet'
  const samples = ended.reduce((sum, step) => sum + step.samples, 0)
  const failed = ended.reduce((sum, step) => sum + step.failed, 0)
  const of = `of ${plural(samples, 'sample')} in ${plural(ended.length, 'ended step')}`
  return failed === samples
    ? `No score: all ${of.slice(3)} failed`
    : `No score ${of}: ${formatCount(failed)} failed, the others were substituted or dropped`
}

export function noSignalsText(steps: Steps): string {
  const groups = steps.reduce(
    (sum, { groupSignals }) => sum + Object.values(groupSignals ?? {}).reduce((a, b) => a + b, 0),
    0,
  )
  return groups === 0 ? 'No groups have been analyzed yet' : `None of ${plural(groups, 'group')}`
}

export function noFailuresText(steps: Steps): string {
  const ended = steps.reduce((sum, { scored, failed }) => sum + scored + failed, 0)
  return ended === 0 ? 'No samples are finished yet' : `None of ${plural(ended, 'finished sample')}`
}
