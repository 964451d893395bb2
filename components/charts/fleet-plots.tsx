'use client'

import { useCallback, useId } from 'react'
import { Bar, Cell, LabelList, Line, ReferenceLine } from 'recharts'
import { durationText, formatCount } from '../format/numbers.ts'
import { shortenMiddle } from '../format/text.ts'
import { minuteTime } from '../format/time.ts'
import { serverHref } from '../servers/server-words.ts'
import { PageLink } from '../shell/page-link.tsx'
import type { BalanceData, BalanceRow } from './balance.prepare.ts'
import type { LegendEntry } from './chart-frame.tsx'
import type { EventMark, HistoryData, HistoryRow } from './history.prepare.ts'
import { hueOf } from './hue.ts'
import { Plot } from './plot.tsx'
import type { CallMinute, ServerMinutesData } from './server-minutes.prepare.ts'
import type { Tick } from './ticks.ts'
import { MarkTip, Tip, type TipProps } from './tip.tsx'

/** Shows only every nth time label where all of them would overlap, for example on narrow screens. */
const TIME_TICKS = 'equidistantPreserveStart'

interface OverTime {
  events?: readonly EventMark[]
  /** Called after a drag with the start times of the first and last interval, epoch ms. */
  onRange?(from: number, to: number): void
}

function TimeTip({
  at,
  events = [],
  ...tip
}: { at: number; events?: readonly EventMark[] } & TipProps) {
  const here = events.find((mark) => mark.at === at)
  return (
    <div>
      <Tip {...tip} />
      {here && <MarkTip line={{ marks: here.events }} />}
    </div>
  )
}

/**
 * Dashed lines at the intervals with events. This is a function and not a component, because Recharts looks for its own
 * elements among the children of a chart.
 */
function eventLines(events: readonly EventMark[] = []) {
  return events.map(({ at, isBad }) => (
    <ReferenceLine
      key={at}
      x={at}
      stroke={isBad ? 'var(--bad)' : 'var(--ok)'}
      strokeOpacity={0.4}
      strokeDasharray="2 3"
      label={<EventLabel color={isBad ? 'var(--bad)' : 'var(--ok)'} />}
    />
  ))
}

function EventLabel({ color, viewBox }: { color: string; viewBox?: { x?: number; y?: number } }) {
  const { x = 0, y = 0 } = viewBox ?? {}
  return <path d={`M${x} ${y}l4 4l-4 4l-4 -4Z`} fill={color} stroke="var(--surface)" data-event />
}

interface StackSeries extends LegendEntry {
  key: string
}

/** Counts of one interval. `isRunning`: the interval has not ended, so its counts still grow. */
interface StackRow {
  at: number
  isRunning?: boolean
}

export function StackPlot<Row extends StackRow>({
  rows,
  series,
  lines = [],
  title,
  timeTicks,
  countTicks,
  sync,
  timeText,
  valueText = formatCount,
  isSparse = false,
  events,
  onRange,
}: OverTime & {
  rows: readonly Row[]
  series: readonly StackSeries[]
  lines?: readonly StackSeries[]
  title: string
  timeTicks: readonly Tick[]
  countTicks: readonly Tick[]
  sync?: string
  timeText(row: Row): string
  valueText?(value: number): string
  /** Whether the tooltip omits series that are zero. */
  isSparse?: boolean
}) {
  const hatch = useId()
  const tipRows = (row: Row) =>
    [...series, ...lines].flatMap(({ key, label, color, stroke }) => {
      const value = Number(row[key as keyof Row] ?? 0)
      return isSparse && value === 0
        ? []
        : [{ label, value: valueText(value), ...(!stroke && { color }) }]
    })
  return (
    <Plot
      data={rows}
      title={title}
      x={{ dataKey: 'at', interval: TIME_TICKS, ticks: timeTicks }}
      y={{ ticks: countTicks, width: 52 }}
      right={18}
      barGap={1}
      {...(sync !== undefined && { sync })}
      {...(onRange && { onRange })}
      tip={(row: Row) => {
        const shown = tipRows(row)
        return (
          <TimeTip
            at={row.at}
            {...(events && { events })}
            title={`${timeText(row)}${row.isRunning ? ', in progress' : ''}`}
            rows={shown.length > 0 ? shown : [{ label: 'None', value: '0' }]}
          />
        )
      }}
    >
      <defs>
        <pattern
          id={hatch}
          width={4}
          height={4}
          patternUnits="userSpaceOnUse"
          patternTransform="rotate(-45)"
        >
          <rect width={4} height={4} fill="color-mix(in oklab, var(--bad) 18%, var(--surface))" />
          <rect width={4} height={1.6} fill="var(--bad)" />
        </pattern>
      </defs>
      {eventLines(events)}
      {series.map(({ key, color, isHatched }) => (
        <Bar key={key} dataKey={key} stackId="all" isAnimationActive={false}>
          {rows.map((row) => (
            <Cell
              key={row.at}
              fill={isHatched ? `url(#${hatch})` : color}
              fillOpacity={row.isRunning ? 0.45 : 1}
            />
          ))}
        </Bar>
      ))}
      {lines.map(({ key, color, stroke }) => (
        <Line
          key={key}
          dataKey={key}
          stroke={color}
          strokeWidth={1.25}
          {...(stroke === 'dashed' && { strokeDasharray: '2 3' })}
          dot={false}
          activeDot={false}
          isAnimationActive={false}
        />
      ))}
    </Plot>
  )
}

export function LinesPlot({
  data,
  series,
  title,
  sync,
  timeText,
  valueText,
  onRange,
}: Pick<OverTime, 'onRange'> & {
  data: HistoryData
  series: readonly { key: `of:${string}`; label: string; color: string }[]
  title: string
  sync: string
  timeText(row: { at: number }): string
  valueText(value: number | null): string
}) {
  return (
    <Plot
      data={data.rows}
      title={title}
      x={{ dataKey: 'at', interval: TIME_TICKS, ticks: data.timeTicks }}
      y={{ ticks: data.valueTicks, width: 52 }}
      right={18}
      sync={sync}
      {...(onRange && { onRange })}
      tip={(row: HistoryRow) => (
        <TimeTip
          at={row.at}
          events={data.events}
          title={timeText(row)}
          rows={series.map(({ key, label, color }) => ({
            ...{ label, value: valueText(row[key] ?? null), color },
          }))}
        />
      )}
    >
      {eventLines(data.events)}
      {series.map(({ key, color }) => (
        <Line
          key={key}
          dataKey={key}
          stroke={color}
          strokeWidth={1.75}
          dot={<LonePoint data={data.rows} of={key} color={color} />}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
      ))}
    </Plot>
  )
}

export function LatencyPlot({
  data,
  color,
  sync,
}: {
  data: ServerMinutesData
  color: string
  sync: string
}) {
  return (
    <Plot
      data={data.minutes}
      title={`Latency in ${formatCount(data.timed)} minutes of the last hour`}
      x={{ dataKey: 'at', interval: TIME_TICKS, ticks: data.timeTicks }}
      y={{ ticks: data.latencyTicks, width: 52 }}
      right={18}
      sync={sync}
      tip={(minute: CallMinute) => (
        <Tip
          title={minuteTime(minute.at)}
          rows={[
            { label: 'p99', value: durationText(minute.p99Ms), color },
            { label: 'p50', value: durationText(minute.p50Ms), color },
            { label: 'Requests', value: formatCount(minute.requests) },
          ]}
        />
      )}
    >
      {(['p99Ms', 'p50Ms'] as const).map((key) => (
        <Line
          key={key}
          dataKey={key}
          stroke={color}
          strokeWidth={1.75}
          {...(key === 'p99Ms' && { strokeDasharray: '4 3' })}
          dot={<LonePoint data={data.minutes} of={key} color={color} />}
          activeDot={{ r: 3 }}
          isAnimationActive={false}
        />
      ))}
    </Plot>
  )
}

/** A value between two gaps has no line, so it is drawn as a point. */
function LonePoint<Row, Key extends keyof Row>({
  cx,
  cy,
  index,
  data,
  of,
  color,
}: {
  cx?: number
  cy?: number
  index?: number
  data: readonly Row[]
  of: Key
  color: string
}) {
  const at = index ?? 0
  const here = data[at]?.[of] ?? null
  const alone = (data[at - 1]?.[of] ?? null) === null && (data[at + 1]?.[of] ?? null) === null
  if (here === null || !alone || cx === undefined || cy === undefined) return null
  return <circle cx={cx} cy={cy} r={2.25} fill={color} />
}

const MAX_NAME_CHARS = 20

export function BalancePlot({ data }: { data: BalanceData }) {
  const { rows } = data
  const tick = useCallback(
    ({ x, y, index }: TickPlace) => {
      const server = rows[index]
      return server === undefined ? <g /> : <ServerTick x={x} y={y} server={server} />
    },
    [rows],
  )
  const longest = Math.max(...rows.map(({ name }) => Math.min(name.length, MAX_NAME_CHARS)))
  const label = { fill: 'var(--ink-2)', fontSize: 11 }
  return (
    <Plot
      data={rows}
      title={`Request and capacity shares of ${formatCount(rows.length)} servers`}
      layout="vertical"
      x={{ type: 'number', ticks: data.ticks }}
      y={{ type: 'category', dataKey: 'name', width: 18 + 7 * longest, tick }}
      right={76}
      barGap="18%"
      barSize={10}
      tip={(row: BalanceRow) => (
        <Tip
          title={row.name}
          rows={[
            { label: 'Requests', value: row.requestText, color: hueOf('server', row.name) },
            { label: 'Capacity', value: row.capacityText, color: 'var(--ink-3)' },
            {
              label: 'Requests ÷ capacity',
              value: row.ratio === null ? '–' : row.ratio.toFixed(2),
            },
          ]}
        />
      )}
    >
      <Bar dataKey="requestShare" isAnimationActive={false}>
        {rows.map((row) => (
          <Cell key={row.id} fill={hueOf('server', row.name)} />
        ))}
        <LabelList dataKey="requestText" position="right" {...label} />
      </Bar>
      <Bar dataKey="capacityShare" fill="var(--ink-3)" fillOpacity={0.5} isAnimationActive={false}>
        <LabelList dataKey="capacityLabel" position="right" {...label} fill="var(--ink-3)" />
      </Bar>
    </Plot>
  )
}

interface TickPlace {
  x: number | string
  y: number | string
  index: number
}

function ServerTick({ x, y, server }: Omit<TickPlace, 'index'> & { server: BalanceRow }) {
  return (
    <PageLink href={serverHref(server)} className="hover:underline">
      <text x={Number(x) - 4} y={y} dy="0.35em" textAnchor="end" fill="var(--ink)" fontSize={12}>
        <title>{server.name}</title>
        {shortenMiddle(server.name, MAX_NAME_CHARS)}
      </text>
    </PageLink>
  )
}
