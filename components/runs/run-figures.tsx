import type { RunDto } from '../../server/contract/runs.ts'
import { countsOf } from '../batches/group-signal-text.ts'
import { medianOf } from '../charts/run.prepare.ts'
import {
  formatCompact,
  formatCount,
  formatDuration,
  formatPercent,
  formatScore,
  percentText,
  plural,
} from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { Figure, FigureStrip } from '../ui/figure-strip.tsx'
import { RunChange } from './run-cells.tsx'
import { runSamplesHref } from './run-url.ts'

const RECENT_STEPS = 20

export function RunFigures({ run }: { run: RunDto }) {
  const ended = run.recent.filter(({ n }) => n !== null)
  const last = ended.at(-1)
  const newest = run.recent.at(-1)
  const recent = ended.slice(-RECENT_STEPS)
  const { nothing, groups } = sumOfSignals(recent)
  const waits = recent.flatMap(({ waitMs }) => waitMs ?? [])
  const wait = formatDuration(medianOf(waits))
  const failed = recent.reduce((sum, step) => sum + step.failed, 0)
  const all = recent.reduce((sum, step) => sum + step.failed + step.scored, 0)
  const failedShare = formatPercent(all === 0 ? null : failed / all)
  const nothingShare = formatPercent(groups === 0 ? null : nothing / groups)
  const lastSteps = lastStepsText(recent.length)
  return (
    <FigureStrip label="Run figures">
      <Figure
        label="Mean reward"
        value={formatScore(last?.mean)}
        detail={
          run.change === null ? (
            'Last ended step'
          ) : (
            <>
              <RunChange change={run.change} /> over {plural(run.change.steps, 'step')}
            </>
          )
        }
      />
      <Figure
        label="Step"
        value={formatCount(newest?.step)}
        detail={
          <>
            Submitted <Ago at={newest?.submittedAt ?? null} />
          </>
        }
      />
      <Figure
        label="Samples"
        value={formatCompact(run.samples)}
        detail={`${plural(run.batches, 'batch', 'batches')}, ${formatCompact(run.failed)} failed`}
      />
      <Figure
        label="No-signal groups"
        hint="Share of groups whose advantages are all zero."
        value={nothingShare.value}
        unit={nothingShare.unit}
        detail={
          nothing === 0 ? (
            capitalized(lastSteps)
          ) : (
            <PageLink
              href={runSamplesHref(run, {
                ...{ step: recent[0]!.step, stepTo: last!.step, groupSignal: 'no_signal' },
              })}
              className="hover:underline"
            >
              {plural(nothing, 'group')} of the {lastSteps}
            </PageLink>
          )
        }
      />
      <Figure
        label="Failed samples"
        hint="Failed samples as a share of scored and failed samples."
        value={failedShare.value}
        unit={failedShare.unit}
        detail={capitalized(lastSteps)}
      />
      <Figure
        label="Reward wait"
        hint="Time from the acceptance of a step’s batch to its last reward."
        value={wait.value}
        unit={wait.unit}
        detail={`p50, ${waitShare(run)}`}
      />
    </FigureStrip>
  )
}

function sumOfSignals(steps: RunDto['steps']): { nothing: number; groups: number } {
  return steps.reduce(
    (sum, { groupSignals }) => {
      if (groupSignals === null) return sum
      const { nothing, groups } = countsOf(groupSignals)
      return { nothing: sum.nothing + nothing, groups: sum.groups + groups }
    },
    { nothing: 0, groups: 0 },
  )
}

function waitShare(run: RunDto): string {
  const shares = run.recent
    .slice(-RECENT_STEPS)
    .flatMap(({ waitMs, stepMs }) =>
      waitMs === null || stepMs === null ? [] : Math.min(1, waitMs / stepMs),
    )
  const share = medianOf(shares)
  return share === null
    ? lastStepsText(Math.min(RECENT_STEPS, run.recent.length))
    : `${percentText(share)} of step time`
}

function lastStepsText(count: number): string {
  return count === 1 ? 'last step' : `last ${plural(count, 'step')}`
}
