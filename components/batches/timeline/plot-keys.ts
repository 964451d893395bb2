import type { TimelineRow } from './timeline.prepare.ts'
import type { SampleMark } from './timeline-model.ts'

type PlotStep =
  | { do: 'reach'; at: number; mark: SampleMark | null }
  | { do: 'zoom'; factor: number }
  | { do: 'pan'; share: number }
  | { do: 'whole' | 'open' | 'leave' }

const PAGE = 10

/**
 * Returns the action of a key for the current row `at` (-1 for none) and sample `mark`. Up and down move between
 * groups, left and right between the finished samples of a group in order of time. Returns null for keys without an
 * action.
 */
export function plotStep(
  key: string,
  shift: boolean,
  rows: readonly TimelineRow[],
  at: number,
  mark: SampleMark | null,
): PlotStep | null {
  const group = (to: number): PlotStep => ({
    do: 'reach',
    at: Math.max(0, Math.min(rows.length - 1, to)),
    mark: null,
  })
  switch (key) {
    case 'ArrowDown':
      return group(at + 1)
    case 'ArrowUp':
      return group(at < 0 ? rows.length - 1 : at - 1)
    case 'PageDown':
      return group(at + PAGE)
    case 'PageUp':
      return group(at - PAGE)
    case 'Home':
      return group(0)
    case 'End':
      return group(rows.length - 1)
    case 'ArrowLeft':
    case 'ArrowRight': {
      const step = key === 'ArrowRight' ? 1 : -1
      if (shift) return { do: 'pan', share: step / 4 }
      const samples = rows[at]?.track.samples ?? []
      if (samples.length === 0) return group(Math.max(0, at))
      const from = mark === null ? (step > 0 ? -1 : samples.length) : samples.indexOf(mark)
      const to = Math.max(0, Math.min(samples.length - 1, from + step))
      return { do: 'reach', at, mark: samples[to] ?? null }
    }
    case '+':
    case '=':
      return { do: 'zoom', factor: 0.5 }
    case '-':
      return { do: 'zoom', factor: 2 }
    case '0':
      return { do: 'whole' }
    case 'Enter':
      return at < 0 ? null : { do: 'open' }
    case 'Escape':
      return at < 0 ? null : { do: 'leave' }
    default:
      return null
  }
}
