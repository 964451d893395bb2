'use client'

import { useRouter } from 'next/navigation'
import { useMemo } from 'react'
import type { RunDto } from '../../server/contract/runs.ts'
import type { SampleFilter } from '../../server/contract/sample-filter.ts'
import { SIGNAL_COLOR, SIGNAL_LABEL } from '../batches/group-signal-text.ts'
import { ChartFrame, Legend } from '../charts/chart-frame.tsx'
import { prepareHeat } from '../charts/heat.prepare.ts'
import { HeatPlot } from '../charts/heat-plot.tsx'
import { hueOf, outcomeColors } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import {
  prepareOutcomes,
  prepareShares,
  prepareSources,
  prepareWaits,
  type SharesData,
  type SourceData,
  type SourcesData,
} from '../charts/run.prepare.ts'
import { stepText } from '../charts/step-axis.prepare.ts'
import { useStepAxis } from '../charts/step-axis.ts'
import { LOG_OPTIONS } from '../charts/ticks.ts'
import { durationText, formatCount, formatScore, percentText, plural } from '../format/numbers.ts'
import { Segmented } from '../ui/field.tsx'
import { noFailuresText, noSignalsText, noSpreadText } from './empty-words.ts'
import { isBinned, runSamplesHref } from './run-url.ts'

const FailuresPlot = lazyPlot(async () => (await import('../charts/run-plots.tsx')).FailuresPlot)
const OutcomesPlot = lazyPlot(async () => (await import('../charts/run-plots.tsx')).OutcomesPlot)
const SignalsPlot = lazyPlot(async () => (await import('../charts/run-plots.tsx')).SignalsPlot)
const SourcePlot = lazyPlot(async () => (await import('../charts/run-plots.tsx')).SourcePlot)
const WaitsPlot = lazyPlot(async () => (await import('../charts/run-plots.tsx')).WaitsPlot)

const FRAME = 'border-b md:odd:border-r'
const TABLE_STEPS = 200

interface LogAxis {
  log: boolean
  onLog(log: boolean): void
}

export function RunCharts({ run, ...wait }: { run: RunDto } & LogAxis) {
  const shares = useMemo(() => prepareShares(run.steps), [run.steps])
  return (
    <div className="grid border-t md:grid-cols-2 md:*:last:odd:col-span-2">
      <SpreadChart run={run} />
      <OutcomesChart run={run} />
      <SignalsChart run={run} data={shares} />
      <WaitsChart run={run} {...wait} />
      <FailuresChart run={run} data={shares} />
    </div>
  )
}

function useSamplesOf(run: RunDto): (of: SampleFilter) => void {
  const router = useRouter()
  return (of) => router.push(runSamplesHref(run, of))
}

function SpreadChart({ run }: { run: RunDto }) {
  const { heat } = run
  const toSamples = useSamplesOf(run)
  const { by, timeOf } = useStepAxis()
  const data = useMemo(() => {
    if (heat === null) return null
    const lasts = new Map(run.steps.map(({ step, bin }) => [step, bin?.last ?? step]))
    return prepareHeat(heat, {
      lastOf: (step) => lasts.get(step) ?? step,
      timeOf: by === 'time' ? timeOf : null,
    })
  }, [heat, run.steps, by, timeOf])
  if (heat === null || data === null)
    return <Nothing title="Reward distribution" reason={noSpreadText(run.steps)} />
  return (
    <ChartFrame
      className={FRAME}
      title="Reward distribution"
      note={
        heat.kind === 'values'
          ? `Share of samples per step and score, ${plural(heat.edges.length, 'score')}`
          : `Share of samples per step and bin, ${data.rows.length} bins`
      }
      chart={
        <HeatPlot
          data={data}
          color={hueOf('run', run.name)}
          onCell={({ step, low, high }) =>
            toSamples({ step, status: 'scored', scoreMin: low, scoreMax: high })
          }
        />
      }
      table={{
        maxShown: TABLE_STEPS,
        head: ['Step', ...data.rows],
        rows: () =>
          data.columns
            .toReversed()
            .map(({ shares, ...row }) => [
              stepText(row),
              ...shares.toReversed().map((share) => (share === 0 ? '0' : percentText(share))),
            ]),
      }}
    />
  )
}

function OutcomesChart({ run }: { run: RunDto }) {
  const toSamples = useSamplesOf(run)
  const data = useMemo(() => prepareOutcomes(run.steps), [run.steps])
  if (data === null)
    return (
      <Nothing
        title="Outcomes"
        reason="No outcomes, because no sample has a verdict such as “equal” or “no answer”."
      />
    )
  const colors = outcomeColors(data.outcomes)
  return (
    <ChartFrame
      className={FRAME}
      title="Outcomes"
      note="Share of finished samples by verdict"
      legend={data.outcomes.map(({ label }, at) => ({ label, color: colors[at] as string }))}
      chart={<OutcomesPlot data={data} onStep={({ step }) => toSamples({ step })} />}
      table={{
        head: ['Step', 'Samples', ...data.outcomes.map(({ label }) => label)],
        rows: data.steps
          .filter(({ n }) => n > 0)
          .toReversed()
          .map((row) => [
            stepText(row),
            formatCount(row.n),
            ...data.outcomes.map(({ name }) => percentText(row[`outcome:${name}`])),
          ]),
      }}
    />
  )
}

function SignalsChart({ run, data }: { run: RunDto; data: SharesData }) {
  const router = useRouter()
  if (data.signals.length === 0)
    return <Nothing title="No-signal groups" reason={noSignalsText(run.steps)} />
  return (
    <ChartFrame
      className={FRAME}
      title="No-signal groups"
      note={
        <Legend
          entries={data.signals.map((signal) => ({
            ...{ label: SIGNAL_LABEL[signal], color: SIGNAL_COLOR[signal] },
          }))}
        />
      }
      chart={
        <SignalsPlot
          data={data}
          onStep={({ step }) => {
            const at = run.steps.find((one) => one.step === step)
            if (at !== undefined) router.push(`/batches/${at.batchId}`)
          }}
        />
      }
      table={{
        head: ['Step', 'Groups', ...data.signals.map((signal) => SIGNAL_LABEL[signal])],
        rows: data.steps
          .filter(({ groups }) => groups > 0)
          .toReversed()
          .map((row) => [
            stepText(row),
            formatCount(row.groups),
            ...data.signals.map((signal) => percentText(row[signal])),
          ]),
      }}
    />
  )
}

function FailuresChart({ run, data }: { run: RunDto; data: SharesData }) {
  const toSamples = useSamplesOf(run)
  const reasons = useMemo(() => reasonsOf(run), [run])
  const failed = run.steps.reduce((sum, step) => sum + step.failed, 0)
  if (failed === 0) return <Nothing title="Failed samples" reason={noFailuresText(run.steps)} />
  return (
    <ChartFrame
      className={FRAME}
      title="Failed samples"
      note={reasons.map(([reason, n]) => `${reason} ${formatCount(n)}`).join(', ')}
      chart={
        <FailuresPlot data={data} onStep={({ step }) => toSamples({ step, status: 'failed' })} />
      }
      table={{
        head: ['Step', 'Failed', 'Share of samples', 'Reasons'],
        rows: run.steps.toReversed().map(({ step, bin, failed, scored, reasons }) => [
          stepText({ step, last: bin?.last ?? step }),
          formatCount(failed),
          percentText(failed + scored === 0 ? null : failed / (failed + scored)),
          Object.entries(reasons)
            .map(([reason, n]) => `${reason} ${formatCount(n)}`)
            .join(', '),
        ]),
      }}
    />
  )
}

function reasonsOf(run: RunDto): [string, number][] {
  const sums = new Map<string, number>()
  for (const { reasons } of run.steps) {
    for (const [reason, n] of Object.entries(reasons)) sums.set(reason, (sums.get(reason) ?? 0) + n)
  }
  return [...sums].sort((a, b) => b[1] - a[1])
}

function WaitsChart({ run, log, onLog }: { run: RunDto } & LogAxis) {
  const data = useMemo(() => prepareWaits(run.steps, { log }), [run.steps, log])
  const isBins = isBinned(run)
  return (
    <ChartFrame
      className={FRAME}
      title="Reward wait"
      note={
        <span className="inline-flex flex-wrap gap-x-3">
          <Legend
            entries={[
              { label: 'Acceptance to last reward', color: 'var(--data-2)' },
              { label: 'Step time', color: 'var(--ink-3)' },
            ]}
          />
          {isBins && 'Medians per bin; band from shortest to longest wait'}
          {data.zeros > 0 && `${plural(data.zeros, isBins ? 'bin' : 'step')} with 0 ms not shown`}
        </span>
      }
      actions={
        (data.isWide || log) && (
          <Segmented
            label="Time axis scale"
            value={log ? 'log' : 'linear'}
            options={LOG_OPTIONS}
            onChange={(scale) => onLog(scale === 'log')}
          />
        )
      }
      chart={<WaitsPlot data={data} log={log} />}
      table={{
        head: ['Step', 'Reward wait', 'Step time', 'Queue, p50', 'Scoring, p50', 'Scoring, p95'],
        rows: run.steps
          .toReversed()
          .map((step) => [
            stepText({ step: step.step, last: step.bin?.last ?? step.step }),
            durationText(step.waitMs),
            durationText(step.stepMs),
            durationText(step.queueMsP50),
            durationText(step.scoreMsP50),
            durationText(step.scoreMsP95),
          ]),
      }}
    />
  )
}

export function SourceCharts({ run }: { run: RunDto }) {
  const data = useMemo(() => prepareSources(run), [run])
  if (run.sources.length < 2) return null
  return (
    <div className="grid md:grid-cols-2 xl:grid-cols-3">
      {data.sources.map((source) => (
        <SourceChart key={source.name} run={run} source={source} of={data} />
      ))}
    </div>
  )
}

function SourceChart({ run, source, of }: { run: RunDto; source: SourceData; of: SourcesData }) {
  const toSamples = useSamplesOf(run)
  return (
    <ChartFrame
      className="border-b md:border-r"
      title={source.name}
      height={150}
      note={`${formatScore(source.last.mean)} at step ${formatCount(source.last.step)}, n = ${formatCount(source.last.n)}; ${of.hasBands ? 'band of the 25th–75th percentiles' : 'mean'}`}
      chart={
        <SourcePlot
          data={source}
          of={of}
          onStep={({ step }) => toSamples({ step, dataSource: source.name })}
        />
      }
      table={{
        head: ['Step', 'Mean', ...(of.hasBands ? ['p25', 'p75'] : []), 'n'],
        rows: source.steps
          .filter(({ mean }) => mean !== null)
          .toReversed()
          .map(({ mean, middle, n, ...row }) => [
            stepText(row),
            formatScore(mean),
            ...(of.hasBands ? [formatScore(middle?.[0]), formatScore(middle?.[1])] : []),
            formatCount(n),
          ]),
      }}
    />
  )
}

function Nothing({ title, reason }: { title: string; reason: string }) {
  return (
    <section className={`${FRAME} px-5 py-3`}>
      <h2 className="font-semibold">{title}</h2>
      <p className="mt-1 text-xs text-ink-3">{reason}</p>
    </section>
  )
}
