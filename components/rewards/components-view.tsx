'use client'

import { useQuery } from '@tanstack/react-query'
import { ChartSpline } from 'lucide-react'
import type { ComponentsDto } from '../../server/contract/rewards.ts'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { type ComponentData, prepareComponents } from '../charts/components.prepare.ts'
import { hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { formatCount, formatScore, plural } from '../format/numbers.ts'
import { Empty } from '../ui/empty.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Select } from '../ui/select.tsx'
import { ChartSkeleton } from '../ui/skeleton.tsx'

const ComponentPlot = lazyPlot(async () => (await import('../charts/run-plots.tsx')).ComponentPlot)

const AGAIN_MS = 500

/** The refetch interval while ended batches are not aggregated yet. */
export const whilePending = ({
  state: { data },
}: {
  state: { data?: Pick<ComponentsDto, 'pending'> | undefined }
}) => (data !== undefined && data.pending > 0 ? AGAIN_MS : false)

export function ComponentsView({
  run,
  onRun,
}: {
  run: string | null
  onRun(run: string | null): void
}) {
  const trpc = useTRPC()
  const components = useQuery(
    trpc.rewards.components.queryOptions(run === null ? {} : { run }, {
      meta: { topics: ['batches'] },
      refetchInterval: whilePending,
    }),
  )
  return (
    <QueryView query={components} skeleton={<ChartSkeleton height={220} />}>
      {(data) =>
        data.run === null ? (
          <NoComponents />
        ) : (
          <>
            <div className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b px-5 py-2">
              <div className="w-60 max-w-full">
                <Select
                  label="Run"
                  hideLabel
                  searchable
                  value={data.run}
                  options={data.runs}
                  onChange={onRun}
                />
              </div>
              <p className="num text-xs text-ink-3">{notesOf(data).join(' · ')}</p>
            </div>
            {data.components.length === 0 ? (
              <Empty icon={ChartSpline} title="No components">
                {data.running > 0
                  ? 'Components appear once a batch with a composite reward has ended.'
                  : 'The rewards of this run are not composite.'}
              </Empty>
            ) : (
              <div className="grid pb-6 md:grid-cols-2 xl:grid-cols-3">
                {prepareComponents(data.components).map((component) => (
                  <Component key={component.name} data={component} />
                ))}
              </div>
            )}
          </>
        )
      }
    </QueryView>
  )
}

export function notesOf(data: Pick<ComponentsDto, 'running' | 'pending' | 'hasMore'>): string[] {
  return [
    'Mean ± std of the scored samples per step',
    ...(data.hasMore ? ['newest 200 batches'] : []),
    ...(data.running > 0 ? [`${plural(data.running, 'batch', 'batches')} not ended`] : []),
    ...(data.pending > 0
      ? [`${plural(data.pending, 'ended batch', 'ended batches')} not aggregated yet`]
      : []),
  ]
}

export function Component({ data }: { data: ComponentData }) {
  const { name, weight, last, steps } = data
  const color = name === '' ? 'var(--accent)' : hueOf('component', name)
  return (
    <ChartFrame
      className="border-b md:border-r"
      title={name === '' ? 'Reward' : name}
      note={
        <>
          {weight !== null && `× ${formatScore(weight)}, `}
          {last === null
            ? `${weight === null ? 'No' : 'no'} scored samples`
            : `${formatScore(last.mean)} at step ${formatCount(last.step)}, n = ${formatCount(last.n)}`}
        </>
      }
      height={190}
      chart={<ComponentPlot data={data} color={color} />}
      table={{
        head: ['Step', 'Mean', 'Std', 'n'],
        rows: steps
          .filter(({ mean }) => mean !== null)
          .toReversed()
          .map(({ step, mean, std, n }) => [
            formatCount(step),
            formatScore(mean),
            formatScore(std),
            formatCount(n),
          ]),
      }}
    />
  )
}

function NoComponents() {
  return (
    <Empty icon={ChartSpline} title="No composite rewards yet">
      <p>
        This view shows each component over the steps of a run, for batches with{' '}
        <code className="font-mono text-xs">reward.combine</code> or the manager gdpo.
      </p>
      <pre className="mt-3 overflow-x-auto rounded-md bg-sunken px-3 py-2 text-left font-mono text-xs">
        {`"reward": {"combine": [
  {"name": "right"},
  {"name": "rm", "weight": 0.5,
   "reward": {"model": "my-rm"}}]}`}
      </pre>
    </Empty>
  )
}
