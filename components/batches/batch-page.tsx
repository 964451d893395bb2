'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { ArrowDownWideNarrow, ChartGantt, GitCompareArrows, RotateCcw } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { type ReactNode, useMemo, useState } from 'react'
import type { BatchViewDto } from '../../server/contract/pages.ts'
import { writeSampleFilter } from '../../server/contract/sample-filter.ts'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { prepareCompletion } from '../charts/completion.prepare.ts'
import { prepareDistribution } from '../charts/distribution.prepare.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { LOG_OPTIONS } from '../charts/ticks.ts'
import { useInTurn } from '../charts/use-in-turn.ts'
import { comparePairHref } from '../compare/compare-url.ts'
import {
  durationText,
  formatCount,
  formatDuration,
  formatRate,
  formatScore,
  percentText,
  plural,
} from '../format/numbers.ts'
import { useLive, useNow } from '../live/live-provider.tsx'
import { planBatchHref } from '../planner/planner-url.ts'
import { useMay } from '../session/use-may.ts'
import { HeaderLinks } from '../shell/header-links.tsx'
import { type KeyBinding, useKeys } from '../shell/keys.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button } from '../ui/button.tsx'
import { CopyText, copyText } from '../ui/copy-text.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Segmented } from '../ui/field.tsx'
import { Figure, FigureStrip, FigureStripSkeleton } from '../ui/figure-strip.tsx'
import { usePrinting } from '../ui/printing.ts'
import { ProgressBar } from '../ui/progress-bar.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { ChartSkeleton, TableSkeleton } from '../ui/skeleton.tsx'
import { BatchStatusView } from '../ui/status.tsx'
import { useUrl } from '../url/use-url.ts'
import { batchDurationMs, isActive, KindMarks, RunName } from './batch-cells.tsx'
import { ReportGroups, ReportHead, ReportTimeline } from './batch-report.tsx'
import { BatchSide } from './batch-side.tsx'
import { countsOf, noSignalShortText } from './group-signal-text.ts'
import { GroupTable } from './group-table.tsx'
import { RemovedNote } from './removed-note.tsx'
import { RescoreSheet } from './rescore-sheet.tsx'
import { GroupTimeline } from './timeline/group-timeline.tsx'
import { timelineView } from './timeline/timeline-url.ts'

const CompletionPlot = lazyPlot(
  async () => (await import('../charts/batch-plots.tsx')).CompletionPlot,
)
const DistributionPlot = lazyPlot(
  async () => (await import('../charts/batch-plots.tsx')).DistributionPlot,
)

const SUMS_EVERY_MS = 2_000

export function BatchPage({ batchId }: { batchId: string }) {
  const trpc = useTRPC()
  const { state } = useLive()
  const view = useQuery(
    trpc.batches.view.queryOptions(
      { batchId },
      {
        meta: { topics: [`batch:${batchId}`] },
        // An active batch is also polled, because the service caches sums for up to 2 s, and a stalled batch emits no
        // events.
        refetchInterval: ({ state: { data } }) =>
          data !== undefined && isActive(data) && state.frozenAt === null ? SUMS_EVERY_MS : false,
      },
    ),
  )
  const batch = view.data
  const place = batch && (
    <>
      <RunName run={batch.run} />
      <span className="num">Step {formatCount(batch.step)}</span>
    </>
  )
  return (
    <>
      <PageHeader
        parent={{ href: '/batches', label: 'Batches' }}
        title={<CopyText text={batchId} className="text-sm" />}
        state={
          batch && (
            <>
              <BatchStatusView status={batch.status} />
              <span className="hidden items-center gap-3 text-ink-2 md:flex">
                {place}
                {/* The default split is omitted, as in lists, because a 1,280 px screen has no room for it. */}
                {batch.split === 'val' && <span>Validation</span>}
              </span>
            </>
          )
        }
        actions={batch && <BatchActions batch={batch} />}
      />
      {batch && (
        // The header of a small screen has no room for the run, step and kind.
        <p className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b px-5 py-1.5 text-xs text-ink-2 md:hidden print:hidden">
          {place}
          <KindMarks of={batch} />
        </p>
      )}
      <QueryView query={view} skeleton={<BatchSkeleton />}>
        {(data) => <BatchBody batch={data} />}
      </QueryView>
    </>
  )
}

function BatchActions({ batch }: { batch: BatchViewDto }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [isConfirming, setIsConfirming] = useState(false)
  const [rescoring, setRescoring] = useState(false)
  const refused = useMay('trainer')
  const cancel = useMutation(
    trpc.batches.cancel.mutationOptions({
      onSuccess: () => {
        setIsConfirming(false)
        void queryClient.invalidateQueries({
          queryKey: trpc.batches.view.queryKey({ batchId: batch.batchId }),
        })
      },
    }),
  )
  const left = batch.samples - batch.scored - batch.failed
  const places = [
    {
      label: 'Lowest-scoring samples',
      icon: <ArrowDownWideNarrow size={14} aria-hidden />,
      href: `/samples?batch=${batch.batchId}&sort=worst`,
    },
    {
      label: 'Plan',
      title: 'Estimate the time saved by overlapping rewards and training',
      icon: <ChartGantt size={14} aria-hidden />,
      href: planBatchHref(batch.batchId),
    },
    {
      label: 'Compare',
      icon: <GitCompareArrows size={14} aria-hidden />,
      href:
        batch.rescoredFrom === null
          ? comparePairHref(batch.batchId, batch.rescores.at(-1))
          : comparePairHref(batch.rescoredFrom, batch.batchId),
    },
  ]
  const canRescore = !batch.open && batch.samples > 0
  const inPalette = (label: string, run: () => void): KeyBinding => ({
    key: null,
    label,
    group: 'This page',
    palette: 'page',
    run,
  })
  useKeys([
    ...(canRescore && refused === null && textsGone(batch) === null
      ? [inPalette(`Rescore ${batch.batchId}`, () => setRescoring(true))]
      : []),
    ...(isActive(batch) && refused === null
      ? [inPalette(`Cancel ${batch.batchId}`, () => setIsConfirming(true))]
      : []),
    inPalette(`Print report of ${batch.batchId}`, () => print()),
    inPalette('Copy batch ID', () => void copyText(batch.batchId)),
  ])
  return (
    <>
      <HeaderLinks of={batch.batchId} links={places} />
      {canRescore && (
        <Button small refused={refused ?? textsGone(batch)} onClick={() => setRescoring(true)}>
          <RotateCcw size={14} aria-hidden />
          <span className="max-sm:sr-only">Rescore</span>
        </Button>
      )}
      <RescoreSheet batch={batch} open={rescoring} onClose={() => setRescoring(false)} />
      {isActive(batch) && (
        <Button small refused={refused} onClick={() => setIsConfirming(true)}>
          Cancel
        </Button>
      )}
      <Confirm
        open={isConfirming}
        onClose={() => setIsConfirming(false)}
        title={`Cancel ${batch.batchId}?`}
        action="Cancel batch"
        keep="Keep batch"
        busy={cancel.isPending}
        error={cancel.error && <FailureView compact error={cancel.error} />}
        onConfirm={() => cancel.mutate({ batchId: batch.batchId })}
      >
        {plural(left, 'sample')} not yet scored will fail with the reason “cancelled”. Existing
        scores are kept. A trainer waiting for this batch is notified. This cannot be undone.
      </Confirm>
    </>
  )
}

function textsGone({ textsRemovedAt }: BatchViewDto): string | null {
  return textsRemovedAt === null
    ? null
    : 'Retention removed the texts of this batch, so it cannot be rescored.'
}

function BatchBody({ batch }: { batch: BatchViewDto }) {
  const printing = usePrinting()
  return (
    <>
      {printing && <ReportHead batch={batch} />}
      <RemovedNote batch={batch} />
      <BatchFigures batch={batch} />
      {batch.samplesRemovedAt === null && batch.completedAt !== null && (
        <BatchBottleneck batchId={batch.batchId} />
      )}
      {batch.samplesRemovedAt === null && <BatchParts batch={batch} />}
    </>
  )
}

function BatchBottleneck({ batchId }: { batchId: string }) {
  const trpc = useTRPC()
  const { data } = useQuery(trpc.batches.bottleneck.queryOptions({ batchId }))
  if (!data || data.servers < 2) return null
  const { totalMs, servers, server } = data
  if (server === null) {
    return (
      <p className="border-b px-5 py-2 text-ink-2" data-bottleneck="">
        None of the {formatCount(servers)} servers alone held up this batch.
      </p>
    )
  }
  return (
    <p className="num border-b px-5 py-2" data-bottleneck={server.name}>
      <b className="font-semibold">{server.name}</b> held up this batch: its median request time of{' '}
      {durationText(server.medianMs)} is {server.ratio.toFixed(1)} × that of the other servers
      {server.tailMs > 0.05 * totalMs &&
        `, and it alone was still scoring in the last ${durationText(server.tailMs)}`}
      . Without it, the batch would have taken about {durationText(server.withoutMs)} instead of{' '}
      {durationText(totalMs)}.
    </p>
  )
}

function BatchParts({ batch }: { batch: BatchViewDto }) {
  const printing = usePrinting()
  const [{ part }] = useUrl(timelineView)
  return (
    <>
      {printing && <ReportTimeline batch={batch} part={part} />}
      <div className="print:hidden">
        <GroupTimeline batch={batch} />
      </div>
      <div className="grid border-t lg:grid-cols-2 print:grid-cols-2 print:border-t-0">
        <RewardDistribution batch={batch} />
        <GroupCompletion batch={batch} />
      </div>
      <div className="grid border-t xl:grid-cols-[minmax(0,1fr)_360px] print:grid-cols-1">
        <div className="min-w-0 print:hidden">
          <GroupTable batch={batch} />
        </div>
        {printing && <ReportGroups batch={batch} />}
        <BatchSide batch={batch} />
      </div>
    </>
  )
}

function BatchFigures({ batch }: { batch: BatchViewDto }) {
  const now = useNow()
  const active = isActive(batch)
  const ended = batch.scored + batch.failed
  const duration = batchDurationMs(batch, now)
  const overall = duration !== null && duration > 0 ? ended / (duration / 1000) : null
  const eta = formatDuration(batch.etaMs)
  const took = formatDuration(duration)
  return (
    <>
      <FigureStrip label="Batch figures">
        <Figure
          label="Samples finished"
          value={formatCount(ended)}
          unit={`of ${formatCount(batch.samples)}`}
          detail={
            batch.failed === 0
              ? ended === 0
                ? 'None finished'
                : 'None failed'
              : `${formatCount(batch.failed)} failed, ${percentText(batch.failed / Math.max(1, ended))}`
          }
        />
        <Figure
          label="Groups completed"
          value={formatCount(batch.groupsCompleted)}
          unit={`of ${formatCount(batch.groups)}`}
          detail={
            batch.groupsCompleted > 0
              ? noSignalDetail(batch)
              : isActive(batch)
                ? 'None yet'
                : 'None'
          }
        />
        <Figure
          label="Mean reward"
          value={formatScore(batch.mean)}
          {...(batch.std === null ? {} : { unit: `± ${formatScore(batch.std)}` })}
          detail={
            batch.min === null
              ? 'No sample scored'
              : `${formatScore(batch.min)} to ${formatScore(batch.max)}`
          }
        />
        <Figure
          label="Throughput"
          hint="Samples scored or failed per second."
          value={active ? formatRate(batch.samplesPerSecond) : formatRate(overall)}
          unit="samples/s"
          detail={active ? 'Last 5 s' : 'Acceptance to end'}
        />
        <Figure
          label="Retries"
          hint="Requests sent again after a failure."
          value={formatCount(batch.retries)}
          unit={batch.retries === 1 ? 'request' : 'requests'}
          detail={batch.retries === 0 ? 'None retried' : 'After a failure'}
        />
        <Figure
          label={active ? 'Time left' : 'Duration'}
          value={active ? eta.value : took.value}
          {...((active ? eta.unit : took.unit) ? { unit: active ? eta.unit : took.unit } : {})}
          detail={active ? `${durationText(duration)} so far` : 'Acceptance to end'}
        />
      </FigureStrip>
      {active && (
        <div className="border-b px-5 py-3">
          <ProgressBar
            thick
            running
            scored={batch.scored}
            failed={batch.failed}
            total={batch.samples}
          />
        </div>
      )}
    </>
  )
}

function noSignalDetail(batch: BatchViewDto): ReactNode {
  const text = noSignalShortText(batch.groupSignals)
  if (isActive(batch) || countsOf(batch.groupSignals).nothing === 0) return text
  return (
    <PageLink
      href={`/samples?${writeSampleFilter({ batch: batch.batchId, groupSignal: 'no_signal' })}`}
      title={text}
      className="hover:underline"
    >
      {text}
    </PageLink>
  )
}

// This plot and the next one render last, one at a time, because both together would block input for 50 ms.
function RewardDistribution({ batch }: { batch: BatchViewDto }) {
  const router = useRouter()
  const [{ log }, setUrl] = useUrl(timelineView)
  const axis = log ? 'log' : 'linear'
  const data = useMemo(
    () => prepareDistribution(batch.distribution, { log }),
    [batch.distribution, log],
  )
  const drawn = useInTurn(data, axis)
  const plot = useMemo(
    () => (
      <DistributionPlot
        data={drawn}
        title={`Rewards of ${formatCount(drawn.n)} scored samples`}
        label="Reward"
        onRow={({ from, most }) =>
          router.push(
            `/samples?${writeSampleFilter({
              ...{ batch: batch.batchId, status: 'scored', substituted: false },
              ...{ scoreMin: from, scoreMax: most },
            })}`,
          )
        }
      />
    ),
    [drawn, batch.batchId, router],
  )
  return (
    <ChartFrame
      title="Rewards"
      note={
        data.n === 0
          ? isActive(batch)
            ? 'No sample scored yet'
            : 'No sample was scored'
          : `n = ${formatCount(data.n)} scored · ${data.kind === 'bars' ? 'samples per value' : 'samples per bin'}`
      }
      actions={
        <Segmented
          label="Count axis scale"
          value={axis}
          onChange={(scale) => setUrl({ log: scale === 'log' })}
          options={LOG_OPTIONS}
        />
      }
      empty={
        data.n === 0 &&
        (isActive(batch)
          ? 'Rewards appear here as samples are scored.'
          : `No sample has a score. ${formatCount(batch.failed)} of ${plural(batch.samples, 'sample')} failed.`)
      }
      chart={plot}
      table={{
        head: ['Reward', 'Samples', 'Share of samples'],
        rows: data.rows.map((row) => [row.label, formatCount(row.count), row.share]),
      }}
    />
  )
}

function GroupCompletion({ batch }: { batch: BatchViewDto }) {
  const now = useNow()
  const { state } = useLive()
  const seen = state.frozenAt ?? now
  const elapsed = isActive(batch) && seen > 0 ? seen - Date.parse(batch.submittedAt) : null
  // The curve is recomputed when data arrive or a second has passed, not on every render.
  const data = useMemo(
    () => prepareCompletion(batch.completion, batch.groups, elapsed),
    [batch.completion, batch.groups, elapsed],
  )
  const drawn = useInTurn(data)
  const plot = useMemo(
    () => <CompletionPlot data={drawn} total={batch.groups} />,
    [drawn, batch.groups],
  )
  const times = [
    data.halfMs === null ? null : `time to p50 of groups ${durationText(data.halfMs)}`,
    data.allMs === null ? null : `time to all groups ${durationText(data.allMs)}`,
  ].filter((each) => each !== null)
  return (
    <ChartFrame
      className="border-t lg:border-t-0 lg:border-l"
      title="Completed groups over time"
      note={`n = ${formatCount(batch.groupsCompleted)} of ${formatCount(batch.groups)}${times.length > 0 ? ` · ${times.join(', ')}` : ''}`}
      empty={
        batch.groupsCompleted === 0 &&
        (isActive(batch)
          ? 'The first group appears once all its samples are scored or failed.'
          : 'No group completed.')
      }
      chart={plot}
      table={{
        head: ['Time', 'Groups completed'],
        rows: batch.completion.map((point) => [durationText(point.ms), formatCount(point.groups)]),
      }}
    />
  )
}

function BatchSkeleton() {
  return (
    <>
      <FigureStripSkeleton />
      <div className="grid py-4 lg:grid-cols-2">
        <ChartSkeleton height={220} />
        <ChartSkeleton height={220} />
      </div>
      <TableSkeleton columns={5} rows={8} />
    </>
  )
}
