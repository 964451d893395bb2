'use client'

import type { BatchProgressDto } from '../../server/contract/pages.ts'
import type { BatchSummary } from '../../server/contract/trainer.ts'
import { useHue } from '../charts/use-hue.ts'
import { formatCount, formatDuration, formatScore, percentText } from '../format/numbers.ts'
import { useNow } from '../live/live-provider.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { MiddleText } from '../ui/middle-text.tsx'
import { ProgressBar } from '../ui/progress-bar.tsx'
import { Quantity } from '../ui/quantity.tsx'

export function isActive(batch: Pick<BatchSummary, 'status'>): boolean {
  return batch.status === 'running' || batch.status === 'open'
}

export function BatchLink({ batchId }: { batchId: string }) {
  return (
    <PageLink
      href={`/batches/${batchId}`}
      className="font-mono text-xs font-medium hover:underline"
    >
      {batchId}
    </PageLink>
  )
}

export function RunName({
  run,
  link = true,
  wraps = false,
}: {
  run: string
  link?: boolean
  wraps?: boolean
}) {
  const hue = useHue('run', run)
  const inside = (
    <>
      <span className="size-2 shrink-0 rounded-full" style={{ background: hue }} aria-hidden />
      {wraps ? (
        <span className="min-w-0 py-1 text-start leading-4 break-words whitespace-normal">
          {run}
        </span>
      ) : (
        <MiddleText text={run} />
      )}
    </>
  )
  return link ? (
    <PageLink
      href={`/runs/${encodeURIComponent(run)}`}
      className="inline-flex max-w-full min-w-0 items-center gap-2 hover:underline"
      title={run}
    >
      {inside}
    </PageLink>
  ) : (
    <span className="inline-flex max-w-full min-w-0 items-center gap-2" title={run}>
      {inside}
    </span>
  )
}

export function SourceName({ name }: { name: string }) {
  const hue = useHue('source', name)
  return (
    <span className="flex items-center gap-2" title={name}>
      <span className="size-2 shrink-0 rounded-[2px]" style={{ background: hue }} aria-hidden />
      <span className="truncate">{name}</span>
    </span>
  )
}

export function KindMarks({ of }: { of: { split: 'train' | 'val'; rescoredFrom: string | null } }) {
  const chip = 'shrink-0 rounded border px-1 text-2xs leading-4 text-ink-3'
  return (
    <>
      {of.split === 'val' && (
        <span className={chip} title="Validation">
          Val
        </span>
      )}
      {of.rescoredFrom !== null && (
        <span
          className={chip}
          title={`This batch rescores the rollouts of ${of.rescoredFrom}. The statistics of the run exclude rescored batches.`}
        >
          Rescored
        </span>
      )}
    </>
  )
}

export function BatchProgress({ batch }: { batch: BatchSummary }) {
  const ended = batch.scored + batch.failed
  return (
    <span className="flex items-center gap-2.5">
      <span className="w-24 shrink-0">
        <ProgressBar
          scored={batch.scored}
          failed={batch.failed}
          total={batch.samples}
          running={isActive(batch)}
        />
      </span>
      <span className="num w-13 text-right text-ink-2">
        {batch.samples === 0 ? '–' : percentText(ended / batch.samples)}
      </span>
    </span>
  )
}

export function MeanStd({ mean, std }: { mean: number | null; std: number | null }) {
  return (
    <span className="num">
      {formatScore(mean)}
      {std !== null && <span className="unit">&nbsp;±&nbsp;{formatScore(std)}</span>}
    </span>
  )
}

export function BatchTime({ batch }: { batch: BatchProgressDto | BatchSummary }) {
  const now = useNow()
  if (!isActive(batch)) return <Quantity of={formatDuration(batchDurationMs(batch, now))} />
  const eta = 'etaMs' in batch ? batch.etaMs : null
  return eta === null ? (
    <span className="text-ink-3">–</span>
  ) : (
    <span className="num text-ink-2">
      <Quantity of={formatDuration(eta)} /> left
    </span>
  )
}

/** The time from acceptance to the end of the batch or to `now`, ms. Null while `now` is 0 (not known yet). */
export function batchDurationMs(
  batch: Pick<BatchSummary, 'submittedAt' | 'completedAt'>,
  now: number,
): number | null {
  const end = batch.completedAt === null ? now : Date.parse(batch.completedAt)
  return end === 0 ? null : Math.max(0, end - Date.parse(batch.submittedAt))
}

export function FailedCount({ failed, href }: { failed: number; href: string }) {
  if (failed === 0) return <span className="num text-ink-3">0</span>
  return (
    <PageLink
      href={href}
      title="View failed samples"
      className="num inline-flex items-center gap-1.5 text-bad hover:underline"
    >
      <span className="hatch inline-block size-2.5 rounded-[2px]" aria-hidden />
      {formatCount(failed)}
    </PageLink>
  )
}
