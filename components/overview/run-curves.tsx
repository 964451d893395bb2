'use client'

import type { OverviewRunDto } from '../../server/contract/pages.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount, formatScore, plural } from '../format/numbers.ts'
import { RunChange, RunCurve, RunState } from '../runs/run-cells.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Section } from '../ui/section.tsx'

/**
 * The reward curves of the runs that are scoring or have the newest batches. The curves are SVG, because the overview
 * loads no chart library.
 */
export function RunCurves({
  runs,
  className,
}: {
  runs: readonly OverviewRunDto[]
  className: string
}) {
  if (runs.length === 0) return null
  return (
    <Section
      title={<PageLink href="/runs">Runs</PageLink>}
      note="mean reward per step, last 50 steps; change with 95 % confidence interval"
      className={className}
    >
      {/* A phone shows only three runs, so that the attention list is near the top. */}
      <ul
        aria-label="Runs"
        className="grid grid-cols-1 gap-px overflow-hidden border-t max-sm:[&>:nth-child(n+4)]:hidden sm:grid-cols-2 xl:grid-cols-3 [&>*]:-mb-px [&>*]:-ml-px [&>*]:border-b [&>*]:border-l"
      >
        {runs.map((run) => (
          <RunCard key={run.name} run={run} />
        ))}
      </ul>
    </Section>
  )
}

function RunCard({ run }: { run: OverviewRunDto }) {
  const means = run.curve.map(({ mean }) => mean)
  const [first, last] = [run.curve[0], run.curve.at(-1)]
  return (
    <li className="min-w-0 px-5 py-3" data-row="">
      <div className="flex items-center gap-3">
        <span className="min-w-0 flex-1 truncate font-medium">
          <RunName run={run.name} />
        </span>
        <span className="shrink-0 text-xs">
          <RunState run={run} />
        </span>
      </div>
      <div className="mt-1 flex flex-wrap items-baseline gap-x-3">
        <span className="num text-xl font-medium tracking-tight">{formatScore(run.mean)}</span>
        {run.change !== null && (
          <span className="text-xs text-ink-3">
            Change <RunChange change={run.change} /> over {plural(run.change.steps, 'step')}
          </span>
        )}
        {run.split === 'val' && <span className="ml-auto text-xs text-ink-3">Validation</span>}
      </div>
      {first !== undefined && last !== undefined ? (
        <>
          <div className="mt-2 flex gap-2">
            <span className="block h-14 min-w-0 flex-1">
              <RunCurve run={run.name} curve={run.curve} height={56} />
            </span>
            <span className="num flex w-11 shrink-0 flex-col justify-between text-2xs text-ink-3">
              <span>{formatScore(Math.max(...means))}</span>
              <span>{formatScore(Math.min(...means))}</span>
            </span>
          </div>
          <div className="num mt-1 flex justify-between pr-13 text-2xs text-ink-3">
            <span>Step {formatCount(first.step)}</span>
            {last !== first && <span>{formatCount(last.step)}</span>}
          </div>
        </>
      ) : (
        <p className="mt-2 text-xs text-ink-3">No step has ended yet.</p>
      )}
    </li>
  )
}
