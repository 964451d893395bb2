'use client'

import { CartesianGrid } from 'recharts'

/** The shared parts of all plots: axes, horizontal grid, tooltip style. */
export const TICK = { fill: 'var(--ink-3)', fontSize: 11 }
export const AXIS = { stroke: 'var(--line-strong)' }
export const GRID = <CartesianGrid vertical={false} stroke="var(--line)" />
export const MARGIN = { top: 8, right: 4, bottom: 0, left: 0 }
/** Room for half of the label below the last value of a numeric axis. */
export const STEPS_MARGIN = { ...MARGIN, right: 12 }
export const CURSOR = { fill: 'var(--ink)', fillOpacity: 0.05 }

/** The label of a prepared tick. */
export function labelOf(ticks: readonly { at: number; label: string }[]) {
  return (at: number) => ticks.find((tick) => tick.at === at)?.label ?? ''
}
