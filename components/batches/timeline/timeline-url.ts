import type { UrlCodec } from '../../url/use-url.ts'
import type { TimeWindow } from './time-scale.ts'
import type { TimelineSort } from './timeline.prepare.ts'

/** How the timeline is looked at; the URL holds the same names, and nothing for what is as usual. */
export interface TimelineView {
  sort: TimelineSort
  /** Null: the whole batch. */
  zoom: TimeWindow | null
  /** Groups of a mini-batch; 0: none are drawn; null: a quarter of the groups. */
  chunk: number | null
  /** All groups at once, or rows that can be read and scrolled. */
  rows: 'fit' | 'read'
  /** Idle time is collapsed. */
  collapse: boolean
  /** Which part of a batch with more groups than are shown at once, from 0. */
  part: number
  table: boolean
}

/** Orders to choose from. */
export const TIMELINE_SORTS: readonly { value: TimelineSort; label: string }[] = [
  { value: 'completion', label: 'Completion' },
  { value: 'dispatch', label: 'First dispatch' },
  { value: 'lost', label: 'Time lost' },
]

const whole = (text: string | null): number | null =>
  text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null

/**
 * A window in whole milliseconds, as the address has it, at least one long. What is dragged keeps its fractions until it
 * rests: rounded at every move, the window would grow by up to 2 ms each, some 120 in a second.
 */
export function wholeWindow({ fromMs, toMs }: TimeWindow): TimeWindow {
  const from = Math.floor(fromMs)
  return { fromMs: from, toMs: Math.max(Math.ceil(toMs), from + 1) }
}

/** What cannot be read is as usual, so that an old or mistyped link still opens. */
export const timelineView: UrlCodec<TimelineView> = {
  parse(params) {
    const from = whole(params.get('from'))
    const to = whole(params.get('to'))
    return {
      sort: TIMELINE_SORTS.find(({ value }) => value === params.get('sort'))?.value ?? 'completion',
      zoom: from !== null && to !== null && to > from ? { fromMs: from, toMs: to } : null,
      chunk: whole(params.get('chunk')),
      rows: params.get('rows') === 'read' ? 'read' : 'fit',
      collapse: params.get('idle') !== 'keep',
      // Counted from 1 where people see it.
      part: Math.max(0, (whole(params.get('part')) ?? 1) - 1),
      table: params.get('timeline') === 'table',
    }
  },
  write(view) {
    const params = new URLSearchParams()
    if (view.sort !== 'completion') params.set('sort', view.sort)
    if (view.zoom !== null) {
      const { fromMs, toMs } = wholeWindow(view.zoom)
      params.set('from', String(fromMs))
      params.set('to', String(toMs))
    }
    if (view.chunk !== null) params.set('chunk', String(view.chunk))
    if (view.rows !== 'fit') params.set('rows', view.rows)
    if (!view.collapse) params.set('idle', 'keep')
    if (view.part > 0) params.set('part', String(view.part + 1))
    if (view.table) params.set('timeline', 'table')
    return params
  },
}
