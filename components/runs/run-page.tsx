'use client'

import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { Boxes, GitCompareArrows, Layers, ListTree, MessageSquareText } from 'lucide-react'
import { useCallback, useMemo } from 'react'
import type { RunDto } from '../../server/contract/runs.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { ChartFrame } from '../charts/chart-frame.tsx'
import {
  type ContributionData,
  prepareComponents,
  prepareContributions,
} from '../charts/components.prepare.ts'
import { hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { MarksProvider } from '../charts/marks.ts'
import { countSteps } from '../charts/run.prepare.ts'
import { timesOf } from '../charts/step-axis.prepare.ts'
import { StepAxisProvider } from '../charts/step-axis.ts'
import { compareRunsHref } from '../compare/compare-url.ts'
import { formatCount, formatScore, plural } from '../format/numbers.ts'
import { promptsHref } from '../prompts/prompts-url.ts'
import { Component, notesOf, whilePending } from '../rewards/components-view.tsx'
import { HeaderLinks } from '../shell/header-links.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { FigureStripSkeleton } from '../ui/figure-strip.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { ChartSkeleton, TableSkeleton } from '../ui/skeleton.tsx'
import { useUrl } from '../url/use-url.ts'
import { RunChanges } from './run-changes.tsx'
import { RunCharts, SourceCharts } from './run-charts.tsx'
import { RunConfig } from './run-config.tsx'
import { RunFan } from './run-fan.tsx'
import { RunFigures } from './run-figures.tsx'
import { RunMissing, RunSplits, useRunMarks } from './run-head.tsx'
import { RunMarks } from './run-marks.tsx'
import { RunMonitors } from './run-monitors.tsx'
import { RunRescores } from './run-rescores.tsx'
import { RunSteps } from './run-steps.tsx'
import {
  inRange,
  isBinned,
  type RunUrl,
  runSamplesHref,
  runUrl,
  type StepRange,
  startsBefore,
  zoomed,
} from './run-url.ts'
import { SeededMark } from './seeded-mark.tsx'

const ContributionsPlot = lazyPlot(
  async () => (await import('../charts/run-plots.tsx')).ContributionsPlot,
)

export function RunPage({ name }: { name: string }) {
  const trpc = useTRPC()
  const [url, setUrl] = useUrl(runUrl)
  const run = useQuery(
    trpc.runs.get.queryOptions(
      { name, split: url.split },
      { meta: { topics: ['batches'] }, placeholderData: keepPreviousData },
    ),
  )
  const gone = run.error !== null && describeFailure(run.error).reason === 'run_not_found'
  const splits = run.data && (
    <RunSplits run={run.data} split={url.split} onChange={(split) => setUrl({ split })} />
  )
  const batches = `/batches?run=${encodeURIComponent(name)}`
  return (
    <>
      <PageHeader
        parent={{ href: '/runs', label: 'Runs' }}
        title={<RunName run={name} link={false} />}
        state={run.data?.seeded && <SeededMark />}
        actions={
          run.data && (
            <>
              {/* On phones, this switch is below the header, which has the name of the run. */}
              <span className="max-sm:hidden">{splits}</span>
              <HeaderLinks
                of={name}
                links={[
                  {
                    label: 'Prompts',
                    icon: <MessageSquareText size={14} aria-hidden />,
                    href: promptsHref(name, { split: url.split }),
                  },
                  {
                    label: 'Samples',
                    icon: <Boxes size={14} aria-hidden />,
                    href: runSamplesHref(run.data, {}),
                  },
                  {
                    label: 'Batches',
                    icon: <Layers size={14} aria-hidden />,
                    href: batches,
                  },
                  {
                    label: 'Compare',
                    icon: <GitCompareArrows size={14} aria-hidden />,
                    href: compareRunsHref([name], url.split),
                  },
                ]}
              />
            </>
          )
        }
      />
      {gone ? (
        <RunMissing name={name} />
      ) : (
        <QueryView query={run} skeleton={<RunSkeleton />}>
          {(data) => (
            <>
              <div className="px-5 pt-3 empty:hidden sm:hidden">{splits}</div>
              <RunConfig run={name} />
              {data.steps.length === 0 ? (
                <Empty
                  icon={ListTree}
                  title={url.split === 'val' ? 'No validation steps yet' : 'No training steps yet'}
                  actions={
                    <PageLink href={batches} className={buttonClass('plain', true)}>
                      View batches
                    </PageLink>
                  }
                >
                  No batch has the split <code className="font-mono text-xs">{url.split}</code>.
                </Empty>
              ) : (
                <Loaded run={data} url={url} onChange={setUrl} />
              )}
            </>
          )}
        </QueryView>
      )}
    </>
  )
}

function Loaded({
  run,
  url,
  onChange,
}: {
  run: RunDto
  url: RunUrl
  onChange(change: Partial<RunUrl>): void
}) {
  const trpc = useTRPC()
  const { zoom } = url
  const range = zoom === null ? {} : { from: zoom.from, until: zoom.to }
  const overlays = useQueries({
    queries: url.over
      .filter((name) => name !== run.name)
      .map((name) =>
        trpc.runs.get.queryOptions(
          { name, split: url.split, ...range },
          { meta: { topics: ['batches'] }, placeholderData: keepPreviousData },
        ),
      ),
    // The function is memoized, because React Query would call a new function on every render.
    combine: useCallback(
      (others: readonly { data?: RunDto | undefined }[]) =>
        others.flatMap(({ data }) => (data ? [zoomed(data, zoom)] : [])),
      [zoom],
    ),
  })
  const part = useQuery(
    trpc.runs.get.queryOptions(
      { name: run.name, split: url.split, ...range },
      { meta: { topics: ['batches'] }, enabled: zoom !== null && isBinned(run) },
    ),
  )
  const finer = zoom !== null && part.data && part.data.steps.length > 0 ? part.data : null
  const shown = useMemo(() => finer ?? zoomed(run, zoom), [finer, run, zoom])
  const marks = useRunMarks(run.name, run)
  const axis = useMemo(
    () => ({
      by: url.x,
      timeOf: timesOf([...run.steps, ...run.recent, ...(finer?.steps ?? [])]),
      onRange: (from: number, to: number) => onChange({ zoom: { from, to } }),
    }),
    [url.x, run, finer, onChange],
  )
  return (
    <MarksProvider value={marks}>
      <StepAxisProvider value={axis}>
        <RunFigures run={run} />
        <Notes run={run} />
        <RunFan run={shown} overlays={overlays} url={url} onChange={onChange} />
        <RunChanges run={run} url={url} onChange={onChange} />
        <RunMarks
          run={run.name}
          marks={marks}
          lastStep={run.recent.at(-1)?.step ?? 1}
          open={url.mark}
          onOpen={(mark) => onChange({ mark })}
        />
        <RunCharts run={shown} log={url.log} onLog={(log) => onChange({ log })} />
        {run.split === 'train' && <RunComponents run={run.name} zoom={zoom} />}
        <SourceCharts run={shown} />
        <RunMonitors run={run.name} split={run.split} zoom={zoom} />
        <RunSteps run={shown} />
        <RunRescores run={run.name} />
      </StepAxisProvider>
    </MarksProvider>
  )
}

function Notes({ run }: { run: RunDto }) {
  const repeated = run.steps.reduce((n, { others }) => n + others, 0)
  const notes = [
    ...(isBinned(run)
      ? [
          `${formatCount(countSteps(run.steps))} steps in ${formatCount(run.steps.length)} bins; drag over a chart to zoom to single steps`,
        ]
      : []),
    ...(repeated > 0
      ? [`Last batch per step; ${plural(repeated, 'earlier batch', 'earlier batches')} omitted`]
      : []),
    ...(run.rescored.batches > 0
      ? [
          `${plural(run.rescored.samples, 'rescored sample')} in ${plural(run.rescored.batches, 'batch', 'batches')} not included`,
        ]
      : []),
    ...(run.pending > 0
      ? [`${plural(run.pending, 'ended batch', 'ended batches')} not aggregated yet`]
      : []),
  ]
  if (notes.length === 0) return null
  return <p className="num border-b px-5 py-2 text-xs text-ink-3">{notes.join(' · ')}</p>
}

function RunSkeleton() {
  return (
    <>
      <FigureStripSkeleton />
      <ChartSkeleton height={320} />
      <TableSkeleton columns={6} rows={6} />
    </>
  )
}

function RunComponents({ run, zoom }: { run: string; zoom: StepRange | null }) {
  const trpc = useTRPC()
  const newest = useQuery(
    trpc.rewards.components.queryOptions(
      { run },
      { meta: { topics: ['batches'] }, refetchInterval: whilePending },
    ),
  )
  const points = newest.data?.components[0]?.points ?? []
  const isBefore = newest.data?.hasMore === true && startsBefore(zoom, points)
  const older = useQuery(
    trpc.rewards.components.queryOptions(
      { run, ...(zoom && { from: zoom.from, until: zoom.to }) },
      { enabled: isBefore, refetchInterval: whilePending },
    ),
  )
  const components = isBefore && older.data !== undefined ? older : newest
  const shown = useMemo(
    () =>
      (components.data?.components ?? []).map((one) => ({
        ...one,
        points: inRange(one.points, zoom),
      })),
    [components.data, zoom],
  )
  const parts = useMemo(
    () => prepareComponents(shown).filter(({ name, last }) => name !== '' && last !== null),
    [shown],
  )
  const contributions = useMemo(() => prepareContributions(shown), [shown])
  if (parts.length === 0) return null
  return (
    <>
      {contributions !== null && <Contributions data={contributions} />}
      <div className={`grid border-b md:grid-cols-2 ${parts.length > 2 ? 'xl:grid-cols-3' : ''}`}>
        {parts.map((part) => (
          <Component key={part.name} data={part} />
        ))}
      </div>
      {components.data && (
        <p className="num border-b px-5 py-2 text-xs text-ink-3">
          {notesOf(components.data).join(' · ')}
        </p>
      )}
    </>
  )
}

function Contributions({ data }: { data: ContributionData }) {
  return (
    <ChartFrame
      className="border-b"
      title="Contributions"
      note="Weight × mean of each component; the line is their sum"
      legend={data.names.map((name) => ({ label: name, color: hueOf('component', name) }))}
      height={240}
      chart={<ContributionsPlot data={data} />}
      table={{
        head: ['Step', ...data.names, 'Sum'],
        rows: data.steps
          .filter(({ sum }) => sum !== null)
          .toReversed()
          .map((row) => [
            formatCount(row.step),
            ...data.names.map((name) => formatScore(row[`part:${name}`])),
            formatScore(row.sum),
          ]),
      }}
    />
  )
}
