'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { ArrowDownWideNarrow, ChartGantt, GitCompareArrows, RotateCcw } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { useMemo, useState } from 'react'
import type { BatchViewDto } from '../../server/wire/pages.ts'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { prepareCompletion } from '../charts/completion.prepare.ts'
import { prepareDistribution } from '../charts/distribution.prepare.ts'
import { CompletionPlot, DistributionPlot } from '../charts/lazy-plots.tsx'
import { useInTurn } from '../charts/use-in-turn.ts'
import { comparePairHref } from '../compare/compare-url.ts'
import {
  durationText,
  formatCount,
  formatDuration,
  formatPercent,
  formatRate,
  formatScore,
  plural,
  quantityText,
} from '../format/numbers.ts'
import { useLive, useNow } from '../live/live-provider.tsx'
import { planBatchHref } from '../planner/planner-url.ts'
import { useMay } from '../session/use-may.ts'
import { type KeyBinding, useKeys } from '../shell/keys.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { ActionMenu } from '../ui/action-menu.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
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
import { batchDurationMs, isActive, RunName } from './batch-cells.tsx'
import { ReportGroups, ReportHead, ReportTimeline } from './batch-report.tsx'
import { BatchSide } from './batch-side.tsx'
import { teachNothingInShort } from './group-signal-text.ts'
import { GroupTable } from './group-table.tsx'
import { RemovedNote } from './removed-note.tsx'
import { RescoreSheet } from './rescore-sheet.tsx'
import { GroupTimeline } from './timeline/group-timeline.tsx'
import { timelineView } from './timeline/timeline-url.ts'

/** A running batch is asked for at least this often. */
const SUMS_EVERY_MS = 2_000

/** One batch: how far it is, how its rewards lie, and which group came when and why then. */
export function BatchPage({ batchId }: { batchId: string }) {
  const trpc = useTRPC()
  const { state } = useLive()
  const view = useQuery(
    trpc.batches.view.queryOptions(
      { batchId },
      {
        meta: { topics: [`batch:${batchId}`] },
        // Its sums may be a reading behind its counts, and a batch that stands still tells of nothing.
        refetchInterval: ({ state: { data } }) =>
          data !== undefined && isActive(data) && state.frozenAt === null ? SUMS_EVERY_MS : false,
      },
    ),
  )
  const batch = view.data
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
                <RunName run={batch.run} />
                <span className="num">step {formatCount(batch.step)}</span>
                {/* As in lists: what is usual is not said, and at 1280 px there is no room for it. */}
                {batch.split === 'val' && <span>validation</span>}
              </span>
            </>
          )
        }
        actions={batch && <BatchActions batch={batch} />}
      />
      <QueryView query={view} skeleton={<BatchSkeleton />}>
        {(data) => <BatchBody batch={data} />}
      </QueryView>
    </>
  )
}

function BatchActions({ batch }: { batch: BatchViewDto }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [asking, setAsking] = useState(false)
  const [rescoring, setRescoring] = useState(false)
  const refused = useMay('trainer')
  const cancel = useMutation(
    trpc.batches.cancel.mutationOptions({
      onSuccess: () => {
        setAsking(false)
        void queryClient.invalidateQueries({
          queryKey: trpc.batches.view.queryKey({ batchId: batch.batchId }),
        })
      },
    }),
  )
  const left = batch.samples - batch.scored - batch.failed
  const worst = `/samples?batch=${batch.batchId}&sort=worst`
  const router = useRouter()
  const places = [
    {
      label: 'Worst samples',
      icon: <ArrowDownWideNarrow size={14} aria-hidden />,
      href: worst,
    },
    {
      label: 'Plan',
      title: 'What would overlap save?',
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
      ? [inPalette(`Cancel ${batch.batchId}`, () => setAsking(true))]
      : []),
    inPalette(`Worst samples of ${batch.batchId}`, () => router.push(worst)),
    inPalette(`Print the report of ${batch.batchId}`, () => print()),
    inPalette('Copy the batch id', () => void copyText(batch.batchId)),
  ])
  return (
    <>
      {/* On a phone they would leave no room for the name of the batch. */}
      <span className="flex items-center gap-2 max-sm:hidden">
        {places.map(({ label, icon, href, title }) => (
          <PageLink
            key={label}
            href={href}
            {...(title ? { title } : {})}
            className={buttonClass('plain', true)}
          >
            {icon}
            {label}
          </PageLink>
        ))}
      </span>
      <span className="sm:hidden">
        <ActionMenu
          label="Where to go from here"
          actions={places.map(({ label, icon, href }) => ({
            label,
            icon,
            onSelect: () => router.push(href),
          }))}
        />
      </span>
      {canRescore && (
        <Button small refused={refused ?? textsGone(batch)} onClick={() => setRescoring(true)}>
          <RotateCcw size={14} aria-hidden />
          <span className="max-sm:sr-only">Rescore</span>
        </Button>
      )}
      <RescoreSheet batch={batch} open={rescoring} onClose={() => setRescoring(false)} />
      {isActive(batch) && (
        <Button small refused={refused} onClick={() => setAsking(true)}>
          Cancel
        </Button>
      )}
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Cancel ${batch.batchId}?`}
        action="Cancel the batch"
        busy={cancel.isPending}
        error={cancel.error && <FailureView compact error={cancel.error} />}
        onConfirm={() => cancel.mutate({ batchId: batch.batchId })}
      >
        {plural(left, 'sample')} not yet scored will fail with the reason “cancelled”. What is
        scored stays. A trainer that waits for this batch is told. This cannot be taken back.
      </Confirm>
    </>
  )
}

/** Why a batch cannot be scored again, though who looks may. */
function textsGone({ textsRemovedAt }: BatchViewDto): string | null {
  return textsRemovedAt === null
    ? null
    : 'Its texts are no longer kept: there is nothing to be scored.'
}

function BatchBody({ batch }: { batch: BatchViewDto }) {
  const printing = usePrinting()
  return (
    <>
      {printing && <ReportHead batch={batch} />}
      <RemovedNote batch={batch} />
      <BatchFigures batch={batch} />
      {batch.samplesRemovedAt === null && <BatchParts batch={batch} />}
    </>
  )
}

/** Everything that is made of samples. */
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
      <FigureStrip label="The batch">
        <Figure
          label="Samples ended"
          value={formatCount(ended)}
          unit={`of ${formatCount(batch.samples)}`}
          detail={
            batch.failed === 0
              ? ended === 0
                ? 'none ended'
                : 'none failed'
              : `${formatCount(batch.failed)} failed, ${quantityText(formatPercent(batch.failed / Math.max(1, ended)))}`
          }
        />
        <Figure
          label="Groups done"
          value={formatCount(batch.groupsCompleted)}
          unit={`of ${formatCount(batch.groups)}`}
          detail={
            batch.groupsCompleted > 0
              ? teachNothingInShort(batch.groupSignals)
              : isActive(batch)
                ? 'none yet'
                : 'none'
          }
        />
        <Figure
          label="Mean reward"
          value={formatScore(batch.mean)}
          {...(batch.std === null ? {} : { unit: `± ${formatScore(batch.std)}` })}
          detail={
            batch.min === null
              ? 'no sample scored'
              : `${formatScore(batch.min)} to ${formatScore(batch.max)}`
          }
        />
        <Figure
          label="Rate"
          value={active ? formatRate(batch.samplesPerSecond) : formatRate(overall)}
          unit="samples/s"
          detail={active ? 'over the last 5 s' : 'acceptance to end'}
        />
        <Figure
          label="Retries"
          value={formatCount(batch.retries)}
          unit={batch.retries === 1 ? 'call' : 'calls'}
          detail={batch.retries === 0 ? 'no call was repeated' : 'made again'}
        />
        <Figure
          label={active ? 'Time left' : 'Took'}
          value={active ? eta.value : took.value}
          {...((active ? eta.unit : took.unit) ? { unit: active ? eta.unit : took.unit } : {})}
          detail={active ? `${durationText(duration)} so far` : 'acceptance to end'}
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

// Its plot and the next follow behind the rest of the page, each by itself: together they would hold it up for 50 ms and more.
function RewardDistribution({ batch }: { batch: BatchViewDto }) {
  const [axis, setAxis] = useState<'linear' | 'log'>('linear')
  const data = useMemo(
    () => prepareDistribution(batch.distribution, { log: axis === 'log' }),
    [batch.distribution, axis],
  )
  const drawn = useInTurn(data, axis)
  const plot = useMemo(
    () => (
      <DistributionPlot
        data={drawn}
        title={`Rewards of ${formatCount(drawn.n)} scored samples`}
        label="reward"
      />
    ),
    [drawn],
  )
  return (
    <ChartFrame
      title="Rewards"
      note={
        data.n === 0
          ? isActive(batch)
            ? 'no sample scored yet'
            : 'no sample was scored'
          : `n = ${formatCount(data.n)} scored · ${data.kind === 'bars' ? 'samples a value' : 'samples a bin'}`
      }
      actions={
        <Segmented
          label="Count axis"
          value={axis}
          onChange={setAxis}
          options={[
            { value: 'linear', label: 'Linear' },
            { value: 'log', label: 'Log' },
          ]}
        />
      }
      chart={
        data.n > 0 ? (
          plot
        ) : (
          <Nothing>
            {isActive(batch)
              ? 'Rewards appear here as samples are scored.'
              : `No score: ${formatCount(batch.failed)} of ${plural(batch.samples, 'sample')} failed.`}
          </Nothing>
        )
      }
      table={{
        head: ['Reward', 'Samples', 'Share'],
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
  // A new shape only when data came or a second passed, not on every render.
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
    data.halfMs === null ? null : `half out at ${durationText(data.halfMs)}`,
    data.allMs === null ? null : `all at ${durationText(data.allMs)}`,
  ].filter((each) => each !== null)
  return (
    <ChartFrame
      className="border-t lg:border-t-0 lg:border-l"
      title="Groups done over time"
      note={`n = ${formatCount(batch.groupsCompleted)} of ${formatCount(batch.groups)}${times.length > 0 ? ` · ${times.join(', ')}` : ''}`}
      chart={
        batch.groupsCompleted === 0 ? (
          <Nothing>
            {isActive(batch)
              ? 'The first group appears when its last sample ends.'
              : 'No group completed.'}
          </Nothing>
        ) : (
          plot
        )
      }
      table={{
        head: ['After', 'Groups done'],
        rows: batch.completion.map((point) => [durationText(point.ms), formatCount(point.groups)]),
      }}
    />
  )
}

function Nothing({ children }: { children: string }) {
  return (
    <p className="flex h-full items-center justify-center rounded-lg border border-dashed text-ink-3">
      {children}
    </p>
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
