'use client'

import { type KeyboardEvent, memo, type PointerEvent, useState } from 'react'
import { formatCount } from '../format/numbers.ts'
import { clockTime } from '../format/time.ts'
import { hueOf } from './hue.ts'
import type { RetryChartData } from './retries.prepare.ts'
import { Tip } from './tip.tsx'

const LABEL_EVERY_MINUTES = 10
/** The share of a bar's slot; the rest is the gap. */
const BAR_SHARE = 0.78

/**
 * Retries per minute, stacked by cause. Drawn without Recharts, which is larger than all other scripts of the
 * overview together: 114 KB compressed for sixty bars.
 */
export const RetriesPlot = memo(function RetriesPlot({ data }: { data: RetryChartData }) {
  const [at, setAt] = useState<number | null>(null)
  const { minutes, ticks } = data
  const top = ticks.at(-1)?.at ?? 1
  const point = (event: PointerEvent<HTMLElement>) => {
    const { left, width } = event.currentTarget.getBoundingClientRect()
    const i = Math.floor(((event.clientX - left) / width) * minutes.length)
    setAt(Math.max(0, Math.min(minutes.length - 1, i)))
  }
  const onKey = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowLeft' ? -1 : event.key === 'ArrowRight' ? 1 : 0
    if (step === 0) return
    event.preventDefault()
    setAt((was) => Math.max(0, Math.min(minutes.length - 1, (was ?? minutes.length) + step)))
  }
  const pointed = at === null ? undefined : minutes[at]
  return (
    <div className="relative h-full pb-5 pl-9 text-2xs text-ink-3">
      <div className="relative h-full">
        {ticks.map((tick) => (
          <div
            key={tick.at}
            className="absolute inset-x-0 border-t"
            style={{ bottom: `${(tick.at / top) * 100}%` }}
          >
            <span className="num absolute -top-2 -left-9 w-7 text-right">{tick.label}</span>
          </div>
        ))}
        <div
          role="img"
          aria-label={`${formatCount(data.total)} retries in the last hour, one bar per minute`}
          // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move between its minutes
          tabIndex={0}
          onPointerMove={point}
          onPointerLeave={() => setAt(null)}
          onKeyDown={onKey}
          onBlur={() => setAt(null)}
          className="absolute inset-0"
        >
          <svg
            aria-hidden="true"
            viewBox={`0 0 ${minutes.length} ${top}`}
            preserveAspectRatio="none"
            className="block size-full"
          >
            {at !== null && (
              <rect x={at} y={0} width={1} height={top} fill="var(--ink)" opacity={0.06} />
            )}
            {minutes.map((minute, i) => {
              let y = top
              return data.reasons.map(({ reason }) => {
                const count = minute[reason] ?? 0
                if (count === 0) return null
                y -= count
                return (
                  <rect
                    key={`${minute.atMs} ${reason}`}
                    x={i + (1 - BAR_SHARE) / 2}
                    y={y}
                    width={BAR_SHARE}
                    height={count}
                    fill={hueOf('reason', reason)}
                  />
                )
              })
            })}
          </svg>
        </div>
        {minutes.map(
          (minute, i) =>
            (minute.atMs / 60_000) % LABEL_EVERY_MINUTES === 0 &&
            i > 1 &&
            i < minutes.length - 2 && (
              <span
                key={minute.atMs}
                className="num absolute top-full mt-1 -translate-x-1/2"
                style={{ left: `${((i + 0.5) / minutes.length) * 100}%` }}
              >
                {clockTime(minute.atMs).slice(0, 5)}
              </span>
            ),
        )}
        {pointed && at !== null && (
          <div
            className="pointer-events-none absolute top-1 z-10 min-w-32"
            style={
              at < minutes.length / 2
                ? { left: `calc(${((at + 1) / minutes.length) * 100}% + 6px)` }
                : { right: `calc(${(1 - at / minutes.length) * 100}% + 6px)` }
            }
          >
            <Tip
              title={clockTime(pointed.atMs).slice(0, 5)}
              rows={
                pointed.total === 0
                  ? [{ label: 'retries', value: '0' }]
                  : data.reasons
                      .filter(({ reason }) => pointed[reason])
                      .map(({ reason }) => ({
                        label: reason,
                        value: formatCount(pointed[reason]),
                        color: hueOf('reason', reason),
                      }))
              }
            />
          </div>
        )}
      </div>
    </div>
  )
})
