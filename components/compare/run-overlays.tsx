'use client'

import { type ReactNode, useMemo } from 'react'
import type { ComparedRunDto, CompareRunsDto, StepDelta } from '../../server/contract/compare.ts'
import { excludesZero } from '../../server/contract/intervals.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import {
  deltaTicks,
  lastStep,
  type OverlayQuantity,
  prepareDeltas,
  prepareOverlay,
} from '../charts/compare.prepare.ts'
import { hueOf } from '../charts/hue.ts'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { stepText } from '../charts/step-axis.prepare.ts'
import { LOG_OPTIONS } from '../charts/ticks.ts'
import {
  durationText,
  formatCount,
  formatScore,
  formatSigned,
  percentText,
  plural,
} from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Segmented } from '../ui/field.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import type { Band, CompareProps } from './compare-url.ts'
import { comparePairHref } from './compare-url.ts'

const OverlayPlot = lazyPlot(async () => (await import('../charts/compare-plots.tsx')).OverlayPlot)
const StepDeltaPlot = lazyPlot(
  async () => (await import('../charts/compare-plots.tsx')).StepDeltaPlot,
)

const TABLE_STEPS = 200
const LIST_STEPS = 50

const BAND_OPTIONS: { value: Band; label: string }[] = [
  { value: 'none', label: 'None' },
  { value: 'middle', label: 'p25–p75' },
  { value: 'most', label: 'p5–p95' },
]

export function RunOverlays({ data, url, onChange }: CompareProps & { data: CompareRunsDto }) {
  const hidden = useMemo(() => new Set(url.hidden), [url.hidden])
  const runs = data.runs.filter(({ step }) => step.length > 0)
  const samples = runs.reduce(
    (sum, run) => sum + run.n.reduce((a: number, n) => a + (n ?? 0), 0),
    0,
  )
  const common = { runs, hidden, width: data.width }
  const frame = 'border-b lg:[&:not(:last-child)]:border-r'
  return (
    <>
      <Overlay
        {...common}
        quantity="mean"
        title="Mean reward"
        note={`n = ${formatCount(samples)} in ${plural(runs.length, 'run')}; failed and substituted samples excluded${data.width > 1 && url.band === 'none' ? '; band from lowest to highest step mean' : ''}`}
        height={320}
        band={url.band}
        write={formatScore}
        actions={
          <>
            {url.zoom !== null && (
              <Button small variant="quiet" onClick={() => onChange({ zoom: null })}>
                Show all steps
              </Button>
            )}
            <Segmented
              label="Band"
              value={url.band}
              options={BAND_OPTIONS}
              onChange={(band) => onChange({ band })}
            />
          </>
        }
      />
      <Deltas data={data} hidden={hidden} />
      <div className="grid border-t lg:grid-cols-3">
        <Overlay
          {...common}
          className={frame}
          quantity="noSignalShare"
          title="No-signal groups"
          note="Share of groups"
          write={percentText}
        />
        <Overlay
          {...common}
          className={frame}
          quantity="failedShare"
          title="Failed samples"
          note="Share of finished samples"
          write={percentText}
        />
        <Overlay
          {...common}
          className={frame}
          quantity="waitMs"
          title="Reward wait"
          note={`Acceptance to last reward${data.width > 1 ? ', median per bin' : ''}`}
          write={durationText}
          log={url.log}
          onLog={(log) => onChange({ log })}
        />
      </div>
      <Sources data={data} />
      <SharedSteps data={data} />
    </>
  )
}

function Overlay({
  runs,
  hidden,
  quantity,
  title,
  note,
  write,
  className,
  height = 212,
  band = 'none',
  width,
  log = false,
  onLog,
  actions,
}: {
  runs: readonly ComparedRunDto[]
  hidden: ReadonlySet<string>
  /** Number of steps per point. */
  width: number
  quantity: OverlayQuantity
  title: string
  note: string
  write(value: number): string
  className?: string
  height?: number
  band?: Band
  log?: boolean
  /** Switches the logarithmic axis, which is offered if the values span a factor of ten. */
  onLog?: (log: boolean) => void
  actions?: ReactNode
}) {
  const data = useMemo(
    () => prepareOverlay(runs, quantity, { hidden, band, width, log }),
    [runs, quantity, hidden, band, width, log],
  )
  const series = runs.map(({ name }) => ({
    name,
    color: hueOf('run', name),
    isHidden: hidden.has(name),
  }))
  return (
    <ChartFrame
      className={className ?? ''}
      title={title}
      note={data.zeros > 0 ? `${note}; ${plural(data.zeros, 'point')} at 0 not shown` : note}
      height={height}
      actions={
        actions ??
        (onLog && (data.isWide || log) && (
          <Segmented
            label={`${title} scale`}
            value={log ? 'log' : 'linear'}
            options={LOG_OPTIONS}
            onChange={(scale) => onLog(scale === 'log')}
          />
        ))
      }
      chart={
        <OverlayPlot
          data={data}
          series={series}
          title={`${title} of ${plural(runs.length, 'run')}`}
          write={write}
          hasBand={quantity === 'mean' && (band !== 'none' || width > 1)}
          log={log}
        />
      }
      table={{
        maxShown: TABLE_STEPS,
        head: ['Step', ...runs.map(({ name }) => name)],
        rows: () =>
          data.steps
            .toReversed()
            .filter((step) => runs.some((_, at) => typeof step[`v${at}`] === 'number'))
            .map((step) => [
              stepText(step),
              ...runs.map((_, at) => {
                const value = step[`v${at}`]
                return typeof value === 'number' ? write(value) : '–'
              }),
            ]),
      }}
    />
  )
}

const HOW =
  'Bands are 95 % confidence intervals per step: ±1.96 standard errors of the difference between the two means. Standard errors are computed over groups, because the samples of a group are not independent.'

function Deltas({ data, hidden }: { data: CompareRunsDto; hidden: ReadonlySet<string> }) {
  const shown = data.deltas.filter(({ run, steps }) => !hidden.has(run) && steps.length > 0)
  const ticks = useMemo(() => deltaTicks(shown.flatMap(({ steps }) => steps)), [shown])
  const [first] = data.runs
  if (first === undefined || data.deltas.length === 0) return null
  if (shown.length === 0) {
    return (
      <section className="border-t px-5 py-3">
        <h2 className="text-sm">Difference from {first.name}</h2>
        <p className="mt-1 text-xs text-ink-3">
          {data.deltas.every(({ steps }) => steps.length === 0)
            ? 'No ended step is shared with the first run.'
            : 'All other runs are hidden.'}
        </p>
      </section>
    )
  }
  return (
    <div className="border-t">
      <div className={`grid ${shown.length > 1 ? 'md:grid-cols-2' : ''}`}>
        {shown.map(({ run, steps }) => (
          <DeltaChart
            key={run}
            className={shown.length > 1 ? 'md:odd:border-r [&:nth-child(n+3)]:border-t' : ''}
            title={`${run} − ${first.name}`}
            note={`Difference in mean reward, ${sharedText(steps.length, data.width)}`}
            width={data.width}
            steps={steps}
            color={hueOf('run', run)}
            ticks={ticks}
          />
        ))}
      </div>
      <p className="max-w-3xl px-5 pb-4 text-xs text-ink-3">
        {HOW} {rewardsText(data.runs)}
      </p>
    </div>
  )
}

/**
 * A warning if the runs have different rewards, whose scales and meanings may differ; empty if all rewards are the
 * same.
 */
function rewardsText(runs: CompareRunsDto['runs']): string {
  const rewards = new Map<string, string[]>()
  for (const { name, reward } of runs) {
    if (reward === null) continue
    const text = `${reward.name} (${reward.version})`
    rewards.set(text, [...(rewards.get(text) ?? []), name])
  }
  if (rewards.size < 2) return ''
  const listed = [...rewards].map(([reward, of]) => `${of.join(', ')}: ${reward}`).join('; ')
  return `The runs have different rewards, so differences include the effect of the reward. ${listed}.`
}

function sharedText(n: number, width: number): string {
  return plural(n, width > 1 ? 'shared bin' : 'shared step')
}

function DeltaChart({
  title,
  note,
  steps,
  width,
  color,
  ticks,
  className,
  height,
}: {
  title: string
  note: string
  steps: readonly StepDelta[]
  /** Number of steps per point. */
  width: number
  color: string
  ticks: { at: number; label: string }[]
  className?: string
  height?: number
}) {
  const data = useMemo(() => prepareDeltas(steps, { ticks, width }), [steps, ticks, width])
  return (
    <ChartFrame
      className={className ?? ''}
      title={title}
      note={note}
      height={height ?? 212}
      chart={<StepDeltaPlot data={data} color={color} title={title} />}
      table={{
        maxShown: TABLE_STEPS,
        head: ['Step', 'Difference', '95 % CI from', '95 % CI to', 'n'],
        rows: () =>
          steps
            .toReversed()
            .map((one) => [
              stepText({ step: one.step, last: lastStep(one.step, width) }),
              formatSigned(one.delta),
              formatSigned(one.low),
              formatSigned(one.high),
              `${formatCount(one.nFirst)} and ${formatCount(one.nOther)}`,
            ]),
      }}
    />
  )
}

function Sources({ data }: { data: CompareRunsDto }) {
  const { sources } = data
  const ticks = useMemo(() => deltaTicks(sources.flatMap(({ steps }) => steps)), [sources])
  if (sources.length < 2) return null
  return (
    <Section
      className="border-t"
      title="Difference by data source"
      note={`${plural(sources.length, 'source')}, one scale`}
    >
      <div className="grid border-t md:grid-cols-2 xl:grid-cols-3">
        {sources.map(({ name, steps }) => (
          <DeltaChart
            key={name}
            className="border-b md:border-r"
            title={name}
            note={`At ${sharedText(steps.length, data.width)}`}
            width={data.width}
            height={150}
            steps={steps}
            color={hueOf('source', name)}
            ticks={ticks}
          />
        ))}
      </div>
    </Section>
  )
}

function SharedSteps({ data }: { data: CompareRunsDto }) {
  const [only] = data.deltas
  // Bins have no batches to link to. Zooming in loads single steps with their batches.
  if (data.runs.length !== 2 || data.width > 1 || !only || only.steps.length === 0) return null
  const steps = only.steps.toReversed().slice(0, LIST_STEPS)
  const clear = steps.filter(excludesZero).length
  return (
    <Section
      className="border-t"
      title="Shared steps"
      note={`Newest ${formatCount(steps.length)} of ${formatCount(only.steps.length)}; the interval excludes 0 at ${plural(clear, 'step')} (about ${formatCount(Math.round(steps.length / 20))} expected by chance)`}
    >
      <Scroll label="Shared steps">
        <table className="grid-table">
          <ColumnHeads columns={['Step', 'Batches', { end: 'Difference' }, { end: '95 % CI' }]} />
          <tbody>
            {steps.map((one) => (
              <tr key={one.step}>
                <td className="num font-medium">{formatCount(one.step)}</td>
                <td>
                  <PageLink
                    href={comparePairHref(one.firstBatch, one.otherBatch)}
                    className="font-mono text-xs text-accent hover:underline"
                  >
                    {one.firstBatch} and {one.otherBatch}
                  </PageLink>
                </td>
                <td className={`num end ${excludesZero(one) ? 'font-semibold' : 'text-ink-3'}`}>
                  {formatSigned(one.delta)}
                </td>
                <td className="num end text-ink-2">
                  {formatSigned(one.low)} to {formatSigned(one.high)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}
