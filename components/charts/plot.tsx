'use client'

import { createContext, type ReactNode, useContext, useMemo, useRef, useState } from 'react'
import {
  BarChart,
  CartesianGrid,
  ComposedChart,
  ReferenceArea,
  ResponsiveContainer,
  Tooltip,
  XAxis,
  type XAxisProps,
  YAxis,
  type YAxisProps,
} from 'recharts'
import type { Tick } from './ticks.ts'

type Ticked<Props> = Omit<Props, 'ref' | 'ticks' | 'tickFormatter'> & { ticks?: readonly Tick[] }

const TICK = { fill: 'var(--ink-3)', fontSize: 11 }
const AXIS = { stroke: 'var(--line-strong)' }
const MARGIN = { top: 8, right: 4, bottom: 0, left: 0 }

/** The content of the tooltip at a row; null shows no tooltip. */
// biome-ignore lint/suspicious/noExplicitAny: only the caller of a plot knows the type of its rows
const TipContent = createContext<(row: any) => ReactNode>(() => null)

/**
 * The frame of every Recharts plot: size, grid, axes and tooltip. A value axis spans its ticks unless it has a
 * `domain`. Axes and tooltip keep their elements while their contents are equal, because each new element costs
 * Recharts a pass over the whole chart.
 */
export function Plot<Row extends object>({
  data,
  title,
  x,
  y,
  layout = 'horizontal',
  right = MARGIN.right,
  barGap,
  barSize,
  sync,
  tip,
  onPick,
  onRange,
  children,
}: {
  data?: readonly Row[]
  /** The accessible description. */
  title: string
  x: Ticked<XAxisProps>
  y: Ticked<YAxisProps>
  /** As in Recharts, `vertical` means horizontal bars. */
  layout?: 'horizontal' | 'vertical'
  /** Right margin, px. It leaves room for half of the last label of a numeric axis. */
  right?: number
  /** The gap between two categories of a bar chart. Omitted if the plot has only lines. */
  barGap?: string | number
  /** The maximum width of a bar, px. */
  barSize?: number
  /** Plots with the same key share their cursor. */
  sync?: string
  tip(row: Row): ReactNode
  onPick?(row: Row): void
  /** Called after a drag along a numeric x axis, with both ends of the range. */
  onRange?(from: number, to: number): void
  children: ReactNode
}) {
  const xAxis = useKept(x)
  const yAxis = useKept(y)
  const axes = useMemo(
    () => (
      <>
        <CartesianGrid
          horizontal={layout === 'horizontal'}
          vertical={layout === 'vertical'}
          stroke="var(--line)"
        />
        <XAxis tick={TICK} axisLine={AXIS} tickLine={false} {...ticked(xAxis)} />
        <YAxis
          tick={TICK}
          axisLine={false}
          tickLine={false}
          interval={0}
          allowDataOverflow
          {...ticked(yAxis)}
        />
        <Tooltip
          cursor={
            barGap === undefined
              ? { stroke: 'var(--ink-3)' }
              : { fill: 'var(--ink)', fillOpacity: 0.05 }
          }
          isAnimationActive={false}
          content={<TipOf />}
        />
      </>
    ),
    [xAxis, yAxis, layout, barGap],
  )
  const Chart = barGap === undefined ? ComposedChart : BarChart
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null)
  // The click that follows a drag is ignored.
  const hasDragged = useRef(false)
  const labelOf = ({ activeLabel }: { activeLabel?: string | number | undefined }) =>
    activeLabel === undefined ? null : Number(activeLabel)
  return (
    <TipArea tip={tip}>
      <ResponsiveContainer width="100%" height="100%">
        <Chart
          {...(data && { data: data as Row[] })}
          layout={layout}
          margin={{ ...MARGIN, right }}
          title={title}
          {...(barGap !== undefined && { barCategoryGap: barGap })}
          {...(barSize !== undefined && { maxBarSize: barSize })}
          // Negative values are stacked below 0.
          stackOffset="sign"
          {...(sync !== undefined && { syncId: sync, syncMethod: 'value' as const })}
          {...(onRange && {
            onMouseDown: (state: { activeLabel?: string | number | undefined }) => {
              const at = labelOf(state)
              hasDragged.current = false
              setDrag(at === null ? null : { from: at, to: at })
            },
            onMouseMove: (state: { activeLabel?: string | number | undefined }) => {
              const at = labelOf(state)
              if (drag !== null && at !== null && at !== drag.to) setDrag({ ...drag, to: at })
            },
            onMouseUp: () => {
              setDrag(null)
              if (drag === null || drag.from === drag.to) return
              hasDragged.current = true
              onRange(Math.min(drag.from, drag.to), Math.max(drag.from, drag.to))
            },
            onMouseLeave: () => setDrag(null),
          })}
          {...(onPick && {
            className: 'cursor-pointer',
            onClick: ({ activeLabel }: { activeLabel?: string | number | undefined }) => {
              if (hasDragged.current) return
              const row = data?.find(
                (one) => String(one[xAxis.dataKey as keyof Row]) === `${activeLabel}`,
              )
              if (row) onPick(row)
            },
          })}
        >
          {axes}
          {children}
          {drag !== null && drag.from !== drag.to && (
            <ReferenceArea x1={drag.from} x2={drag.to} fill="var(--accent)" fillOpacity={0.12} />
          )}
        </Chart>
      </ResponsiveContainer>
    </TipArea>
  )
}

/**
 * Shows the tooltip only while the chart has the pointer or focus, because synchronized charts share their cursor and
 * would all show a tooltip. This component keeps that state, so that a change does not render the chart again.
 */
function TipArea<Row>({ tip, children }: { tip(row: Row): ReactNode; children: ReactNode }) {
  const [isPointed, setPointed] = useState(false)
  return (
    <TipContent.Provider value={isPointed ? tip : noTip}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the handlers only note where the pointer is */}
      <div
        className="size-full"
        onPointerEnter={() => setPointed(true)}
        onPointerLeave={() => setPointed(false)}
        onFocus={() => setPointed(true)}
        onBlur={() => setPointed(false)}
      >
        {children}
      </div>
    </TipContent.Provider>
  )
}

const noTip = () => null

/** Returns the previous object while its contents are equal, because live data are new objects on every read. */
function useKept<T extends { tick?: unknown }>(value: T): T {
  const [kept, setKept] = useState(value)
  if (kept === value) return value
  if (kept.tick === value.tick && JSON.stringify(kept) === JSON.stringify(value)) return kept
  setKept(value)
  return value
}

function ticked<Props extends { ticks?: readonly Tick[] }>({ ticks, ...props }: Props) {
  if (ticks === undefined) return props
  return {
    domain: [ticks[0]?.at ?? 0, ticks.at(-1)?.at ?? 1],
    ticks: ticks.map(({ at }) => at),
    tickFormatter: (at: number) => ticks.find((tick) => tick.at === at)?.label ?? '',
    ...props,
  }
}

function TipOf({
  active,
  payload,
}: {
  active?: boolean
  payload?: readonly { payload?: object }[]
}) {
  const content = useContext(TipContent)
  const row = payload?.[0]?.payload
  return active && row ? content(row) : null
}
