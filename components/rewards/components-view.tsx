'use client'

import { useQuery } from '@tanstack/react-query'
import { ChartSpline } from 'lucide-react'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { type ComponentData, prepareComponents } from '../charts/components.prepare.ts'
import { hueOf } from '../charts/hue.ts'
import { ComponentPlot } from '../charts/lazy-plots.tsx'
import { formatCount, formatScore, plural } from '../format/numbers.ts'
import { Empty } from '../ui/empty.tsx'
import { Select } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { ChartSkeleton } from '../ui/skeleton.tsx'

/** Batches that are not added up yet are asked for again after so long. */
const AGAIN_MS = 500

/** The parts of composite rewards over the steps of a run, each on a scale of its own. */
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
      refetchInterval: (query) => ((query.state.data?.pending ?? 0) > 0 ? AGAIN_MS : false),
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
                  value={data.run}
                  onChange={(event) => onRun(event.target.value)}
                >
                  {(data.runs.includes(data.run) ? data.runs : [data.run, ...data.runs]).map(
                    (name) => (
                      <option key={name}>{name}</option>
                    ),
                  )}
                </Select>
              </div>
              <p className="num text-xs text-ink-3">{notesOf(data).join(' · ')}</p>
            </div>
            {data.components.length === 0 ? (
              <Empty icon={ChartSpline} title="No step of this run has components">
                {data.running > 0
                  ? 'Its first batch is being scored.'
                  : 'Its rewards are of one scorer each.'}
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

function notesOf(data: { running: number; pending: number; more: boolean }): string[] {
  return [
    'mean and one standard deviation of the scored samples of a step',
    ...(data.more ? ['the newest 200 batches'] : []),
    ...(data.running > 0 ? [`${plural(data.running, 'batch', 'batches')} not ended yet`] : []),
    ...(data.pending > 0
      ? [`adding up ${plural(data.pending, 'more batch', 'more batches')}`]
      : []),
  ]
}

/** One component over the steps. */
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
            ? 'no mean in these steps'
            : `${formatScore(last.mean)} at step ${formatCount(last.step)}, n = ${formatCount(last.n)}`}
        </>
      }
      height={190}
      chart={<ComponentPlot data={data} color={color} />}
      table={{
        head: ['Step', 'Mean', 'Deviation', 'n'],
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
    <Empty icon={ChartSpline} title="No recent reward has several parts">
      <p>
        A batch whose reward has <code className="font-mono text-xs">combine</code>, or dimensions
        of the manager gdpo, shows here what each of them did over the steps.
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
