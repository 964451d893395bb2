'use client'

import { CartesianGrid } from 'recharts'

/** What every plot has: quiet axes, a grid of lines across, one look of the box under the cursor. */
export const TICK = { fill: 'var(--ink-3)', fontSize: 11 }
export const AXIS = { stroke: 'var(--line-strong)' }
export const GRID = <CartesianGrid vertical={false} stroke="var(--line)" />
export const MARGIN = { top: 8, right: 4, bottom: 0, left: 0 }
/** Room for the half of a label that stands under the last value of an axis of numbers. */
export const STEPS_MARGIN = { ...MARGIN, right: 12 }
export const CURSOR = { fill: 'var(--ink)', fillOpacity: 0.05 }

/** The label of a tick that was prepared. */
export function labelOf(ticks: readonly { at: number; label: string }[]) {
  return (at: number) => ticks.find((tick) => tick.at === at)?.label ?? ''
}
