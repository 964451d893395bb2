'use client'

import { useQuery } from '@tanstack/react-query'
import { X } from 'lucide-react'
import { useMemo } from 'react'
import type { RunDto } from '../../server/contract/runs.ts'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { countSteps, prepareFan } from '../charts/run.prepare.ts'
import { stepText } from '../charts/step-axis.prepare.ts'
import { useStepAxis, X_AXES } from '../charts/step-axis.ts'
import { formatCount, formatScore, plural } from '../format/numbers.ts'
import { dateTime } from '../format/time.ts'
import { Button, IconButton } from '../ui/button.tsx'
import { Segmented } from '../ui/field.tsx'
import { MiddleText } from '../ui/middle-text.tsx'
import { Select } from '../ui/select.tsx'
import { againstBefore, MAX_OVERLAYS, type RunUrl, SMOOTHINGS } from './run-url.ts'

const FanPlot = lazyPlot(async () => (await import('../charts/run-plots.tsx')).FanPlot)

export function RunFan({
  run,
  overlays,
  url,
  onChange,
}: {
  run: RunDto
  overlays: RunDto[]
  url: RunUrl
  onChange(change: Partial<RunUrl>): void
}) {
  const { by, timeOf } = useStepAxis()
  const { range, smoothing } = url
  const data = useMemo(
    () => prepareFan(run, overlays, { range, smoothing, timeOf: by === 'time' ? timeOf : null }),
    [run, overlays, range, smoothing, by, timeOf],
  )
  const samples = run.steps.reduce((sum, { n }) => sum + (n ?? 0), 0)
  return (
    <>
      <ChartFrame
        title="Reward"
        note={[
          `n = ${formatCount(samples)} in ${plural(countSteps(run.steps), 'step')}`,
          data.isFewValued
            ? 'mean with its 95 % confidence interval over groups'
            : 'bands of the 25th–75th and 5th–95th percentiles, mean solid, median dashed',
          ...(data.perPoint > 1
            ? [
                `bins of ${plural(data.perPoint, 'step')}, with a dark band from lowest to highest mean`,
              ]
            : []),
          ...(by === 'time' && overlays.length > 0
            ? ['other runs shifted to start with this run']
            : []),
        ].join('; ')}
        height={320}
        actions={
          <>
            {url.zoom !== null && (
              <Button small variant="quiet" onClick={() => onChange({ zoom: null })}>
                Show all steps
              </Button>
            )}
            <span className="text-xs text-ink-3 max-sm:hidden" aria-hidden>
              Smoothing
            </span>
            <Segmented
              label="Smoothing"
              value={String(url.smoothing)}
              options={SMOOTHINGS.map((weight) => ({
                ...{ value: String(weight), label: weight === 0 ? 'Raw' : String(weight) },
              }))}
              onChange={(weight) => onChange({ smoothing: Number(weight) })}
            />
            <Segmented
              label="Horizontal axis"
              value={by}
              options={X_AXES.map((value) => ({
                ...{ value, label: value === 'step' ? 'Steps' : 'Time' },
              }))}
              onChange={(x) => onChange({ x })}
            />
            <Segmented
              label="Scale"
              value={url.range ? 'all' : 'most'}
              options={[
                { value: 'most', label: data.isFewValued ? 'Fit' : 'p5–p95' },
                { value: 'all', label: 'All scores' },
              ]}
              onChange={(scale) => onChange({ range: scale === 'all' })}
            />
          </>
        }
        chart={
          <FanPlot
            data={data}
            name={run.name}
            range={url.range}
            onStep={({ step }) => onChange(againstBefore(run, { from: step, to: step }) ?? {})}
          />
        }
        table={{
          head: [
            ...['Step', 'Mean'],
            ...(data.perPoint > 1 ? ['Lowest mean', 'Highest mean'] : []),
            ...['Std', 'p5', 'p25', 'Median', 'p75', 'p95', 'n'],
            ...(by === 'time' ? ['Accepted'] : []),
          ],
          rows: run.steps
            .toReversed()
            .map((step) => [
              stepText({ step: step.step, last: step.bin?.last ?? step.step }),
              formatScore(step.mean),
              ...(data.perPoint > 1
                ? [formatScore(step.bin?.means?.[0]), formatScore(step.bin?.means?.[1])]
                : []),
              formatScore(step.std),
              ...Array.from({ length: 5 }, (_, at) => formatScore(step.quantiles?.[at])),
              step.n === null ? 'Running' : formatCount(step.n),
              ...(by === 'time' ? [dateTime(Date.parse(step.submittedAt))] : []),
            ]),
        }}
      />
      <Overlays run={run} over={url.over} onChange={(over) => onChange({ over })} />
    </>
  )
}

function Overlays({
  run,
  over,
  onChange,
}: {
  run: RunDto
  over: string[]
  onChange(over: string[]): void
}) {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions(undefined, { meta: { topics: ['batches'] } }))
  const others = (runs.data ?? [])
    .map(({ name }) => name)
    .filter((name) => name !== run.name && !over.includes(name))
  if (over.length === 0 && others.length === 0) return null
  return (
    <div className="flex flex-wrap items-center gap-2 px-5 pb-3">
      {over.map((name) => (
        <span
          key={name}
          className="inline-flex h-7 items-center gap-2 rounded-md border pl-2.5 text-xs"
        >
          <span
            className="size-2 rounded-full"
            style={{ background: hueOf('run', name) }}
            aria-hidden
          />
          <MiddleText text={name} className="max-w-80" />
          <IconButton
            label={`Remove ${name}`}
            onClick={() => onChange(over.filter((o) => o !== name))}
          >
            <X size={13} aria-hidden />
          </IconButton>
        </span>
      ))}
      {others.length > 0 && over.length < MAX_OVERLAYS && (
        <div className="w-52">
          <Select
            label="Overlay run"
            hideLabel
            searchable
            value={null}
            placeholder="Overlay run…"
            options={others}
            onChange={(name) => name !== null && onChange([...over, name])}
          />
        </div>
      )}
    </div>
  )
}
