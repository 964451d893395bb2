'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { CircleCheck, CircleX, TriangleAlert } from 'lucide-react'
import { useMemo } from 'react'
import type { FirstAnswers } from '../../server/contract/first-answers.ts'
import type { Attention, OverviewDto } from '../../server/contract/pages.ts'
import { MAX_LISTED_WORKERS } from '../../server/contract/worker-stats.ts'
import { useTRPC } from '../api/trpc.ts'
import { ActiveBatches, RecentBatches } from '../batches/overview-tables.tsx'
import { WhenSeen } from '../charts/lazy-plot.tsx'
import { Sparkline } from '../charts/sparkline.tsx'
import { formatCompact, formatCount, formatRate, percentText, plural } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { useLive } from '../live/live-provider.tsx'
import { FleetTable } from '../servers/fleet-table.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Figure, FigureStrip, FigureStripSkeleton } from '../ui/figure-strip.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Section } from '../ui/section.tsx'
import { ChartSkeleton, TableSkeleton } from '../ui/skeleton.tsx'
import { Retries } from '../workers/history-charts.tsx'
import { useFleetHistory } from '../workers/use-fleet-history.ts'
import { WorkersGlance } from '../workers/workers-glance.tsx'
import { prepareAttention } from './attention.prepare.ts'
import { FleetGlance, LAST_HOUR } from './fleet-glance.tsx'
import { Onboarding } from './onboarding.tsx'
import { RunCurves } from './run-curves.tsx'
import { useTrail } from './trail.ts'

const RECENT_SHOWN = 10
const RETRIES_SKELETON = (
  <Section title="Retries" note="Last hour">
    <ChartSkeleton height={200} />
  </Section>
)

/** The overview page. `first` is the data that came with the document; null if the page fetches all data. */
export function OverviewPage({ first }: { first: FirstAnswers | null }) {
  const trpc = useTRPC()
  // The service's clock may be ahead of the browser's clock. A time in the future would delay the next fetch.
  const readAtMs = Math.min(first?.atMs ?? 0, Date.now())
  const overview = useQuery(
    trpc.overview.get.queryOptions(undefined, {
      ...(first && { initialData: first.overview, initialDataUpdatedAt: readAtMs }),
      meta: { topics: ['overview', 'batches', 'servers', 'workers', 'runs'] },
    }),
  )
  const monitors = useQuery(
    trpc.servers.monitors.queryOptions(undefined, {
      ...(first && { initialData: first.monitors, initialDataUpdatedAt: readAtMs }),
      meta: { topics: ['servers'] },
    }),
  )
  const data = overview.data
  const attention = useMemo(
    () => (data ? prepareAttention(data.attention, data.servers, monitors.data ?? []) : []),
    [data, monitors.data],
  )
  return (
    <>
      <PageHeader title="Overview" state={data && !data.empty && <Calm attention={attention} />} />
      <QueryView query={overview} skeleton={<OverviewSkeleton />}>
        {(shown) =>
          shown.empty ? <Onboarding /> : <Dashboard data={shown} attention={attention} />
        }
      </QueryView>
    </>
  )
}

function Calm({ attention }: { attention: Attention[] }) {
  if (attention.length > 0) {
    const worst = attention.some((each) => each.level === 'error') ? 'text-bad' : 'text-warn'
    return (
      <span className={`flex min-w-0 items-center gap-1.5 ${worst}`}>
        <TriangleAlert size={14} className="shrink-0" aria-hidden />
        <span className="truncate">
          {attention.length === 1 ? '1 item needs' : `${attention.length} items need`} attention
        </span>
      </span>
    )
  }
  return (
    <span className="flex min-w-0 items-center gap-1.5 text-ink-2">
      <CircleCheck size={14} className="shrink-0 text-ok" aria-hidden />
      <span className="truncate">Nothing needs attention</span>
    </span>
  )
}

function Dashboard({ data, attention }: { data: OverviewDto; attention: Attention[] }) {
  return (
    <>
      <RunCurves runs={data.runs} className="border-b" />
      {attention.length > 0 && <AttentionList attention={attention} />}
      <Figures figures={data.figures} />
      <ActiveBatches batches={data.activeBatches} total={data.figures.activeBatches} />
      <FleetGlance />
      <div className="grid grid-cols-1 border-t lg:grid-cols-2">
        <FleetTable servers={data.servers} />
        <WorkersGlance workers={data.workers} className="max-lg:border-t lg:border-l" />
      </div>
      <div className="grid grid-cols-1 border-t lg:grid-cols-2">
        <RetriesOfHour />
        <Recent className="max-lg:border-t lg:border-l" />
      </div>
    </>
  )
}

// The fleet's history and recent batches are separate queries, so that a slow or failed one does not affect the other
// sections.
function RetriesOfHour() {
  const history = useFleetHistory(LAST_HOUR)
  return (
    <QueryView compact query={history} title="Retries" skeleton={RETRIES_SKELETON}>
      {(data) => (
        <WhenSeen waiting={RETRIES_SKELETON}>
          <Retries data={data} className="" />
        </WhenSeen>
      )}
    </QueryView>
  )
}

function Recent({ className }: { className: string }) {
  const trpc = useTRPC()
  const recent = useQuery(
    trpc.batches.list.queryOptions(
      { ended: true, limit: RECENT_SHOWN },
      { meta: { topics: ['batches'] }, placeholderData: keepPreviousData },
    ),
  )
  return (
    <div className={className}>
      <QueryView
        compact
        query={recent}
        title="Recent batches"
        skeleton={
          <Section title="Recent batches">
            <TableSkeleton columns={4} rows={RECENT_SHOWN} />
          </Section>
        }
      >
        {({ items }) => <RecentBatches batches={items} />}
      </QueryView>
    </div>
  )
}

function AttentionList({ attention }: { attention: Attention[] }) {
  return (
    <ul aria-label="Needs attention" className="border-b">
      {attention.map((each) => {
        const Icon = each.level === 'error' ? CircleX : TriangleAlert
        return (
          <li key={`${each.href} ${each.title}`} className="border-b last:border-0">
            <PageLink
              href={each.href}
              className={`group flex items-baseline gap-x-3 px-5 py-1.5 max-sm:flex-wrap ${each.level === 'error' ? 'bg-bad-soft' : 'bg-warn-soft'}`}
            >
              <Icon
                size={14}
                strokeWidth={2.2}
                className={`shrink-0 self-center ${each.level === 'error' ? 'text-bad' : 'text-warn'}`}
                aria-label={capitalized(each.level)}
              />
              <span className="font-medium group-hover:underline sm:shrink-0">{each.title}</span>
              {each.splits?.map((split) => (
                <span
                  key={split}
                  className="shrink-0 rounded border border-line-strong px-1 text-2xs leading-4 text-ink-2"
                >
                  {split === 'val' ? 'Validation' : 'Training'}
                </span>
              ))}
              <span
                className="min-w-0 text-ink-2 max-sm:w-full max-sm:pl-[26px] sm:truncate"
                title={each.detail}
              >
                {each.detail}
              </span>
            </PageLink>
          </li>
        )
      })}
    </ul>
  )
}

function Figures({ figures }: { figures: OverviewDto['figures'] }) {
  const { state } = useLive()
  const known = state.link === 'open' && state.frozenAt === null
  const inFlight = useTrail(known ? figures.inFlight : null)
  const queued = useTrail(known ? figures.queued : null)
  const ended = figures.scoredLastHour + figures.failedLastHour
  return (
    <FigureStrip label="Service figures">
      <Figure
        label="Throughput"
        value={formatRate(figures.samplesPerSecond)}
        unit="samples/s"
        detail="Over the last second"
      >
        <Sparkline
          readings={figures.samplesPerSecondHistory}
          label="Samples per second, last 60 s"
        />
      </Figure>
      <Figure
        label="In flight"
        value={formatCompact(figures.inFlight)}
        unit="samples"
        detail="Being scored now"
      >
        <Sparkline readings={inFlight} label="Samples in flight" color="var(--data-6)" />
      </Figure>
      <Figure
        label="Queued"
        value={formatCompact(figures.queued)}
        unit="samples"
        detail={`In ${plural(figures.activeBatches, 'active batch', 'active batches')}`}
      >
        <Sparkline readings={queued} label="Samples queued, last 60 s" color="var(--data-8)" />
      </Figure>
      <Figure
        label="Scored, last hour"
        value={formatCompact(figures.scoredLastHour)}
        unit="samples"
        detail={
          <span title="Scored samples of batches that were submitted in the last hour">
            {kindsText(figures)}
          </span>
        }
      />
      <Figure
        label="Failed, last hour"
        value={formatCompact(figures.failedLastHour)}
        unit="samples"
        detail={
          ended === 0
            ? 'No samples finished'
            : `${percentText(figures.failedLastHour / ended)} of ${formatCompact(ended)} finished`
        }
      />
      <Figure
        label="Fleet"
        value={`${formatCount(figures.serversReady)}/${formatCount(figures.serversTotal)}`}
        unit="servers ready"
        detail={
          figures.workersAlive < MAX_LISTED_WORKERS
            ? `${plural(figures.workersAlive, 'worker')} alive`
            : `${formatCount(figures.workersAlive)}+ workers alive`
        }
      />
    </FigureStrip>
  )
}

function kindsText({ validationLastHour, rescoredLastHour }: OverviewDto['figures']): string {
  const apart = [
    ...(validationLastHour > 0 ? [`${formatCompact(validationLastHour)} val`] : []),
    ...(rescoredLastHour > 0 ? [`${formatCompact(rescoredLastHour)} rescored`] : []),
  ]
  return apart.length === 0 ? 'In batches of the last hour' : apart.join(', ')
}

function OverviewSkeleton() {
  return (
    <>
      <FigureStripSkeleton sparks />
      <TableSkeleton columns={6} rows={6} />
    </>
  )
}
