import type { UrlCodec } from '../../url/use-url.ts'
import type { TimeWindow } from './time-scale.ts'
import type { TimelineSort } from './timeline.prepare.ts'

/** The view state of the timeline and the reward distribution. The URL stores only values that are not the default. */
export interface TimelineView {
  sort: TimelineSort
  /** Null shows the whole batch. */
  zoom: TimeWindow | null
  /** Groups per mini-batch. With 0, no mini-batches are drawn; null means `defaultChunk`. */
  chunk: number | null
  /** `fit` shows all groups at once, `read` shows readable rows that scroll. */
  rows: 'fit' | 'read'
  collapse: boolean
  /** The page of groups, from 0. A batch with more groups than are shown at once has several pages. */
  part: number
  table: boolean
  /** Whether the count axis of the reward distribution is logarithmic. */
  log: boolean
}

export const TIMELINE_SORTS: readonly { value: TimelineSort; label: string }[] = [
  { value: 'completion', label: 'Completion' },
  { value: 'dispatch', label: 'First dispatch' },
  { value: 'stragglerDelay', label: 'Straggler delay' },
]
/** The value of `stragglerDelay` in the links of earlier versions. */
const FORMER_DELAY_SORT = 'lost'

function sortOf(text: string | null): TimelineSort {
  if (text === FORMER_DELAY_SORT) return 'stragglerDelay'
  return TIMELINE_SORTS.find(({ value }) => value === text)?.value ?? 'completion'
}

const whole = (text: string | null): number | null =>
  text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null

/**
 * A window in whole milliseconds, at least 1 ms long, as in the URL. During a drag, a window keeps fractions, because
 * each rounding can grow the window by 2 ms, and a drag has about 120 moves per second.
 */
export function wholeWindow({ fromMs, toMs }: TimeWindow): TimeWindow {
  const from = Math.floor(fromMs)
  return { fromMs: from, toMs: Math.max(Math.ceil(toMs), from + 1) }
}

/** Invalid values fall back to the defaults, so that old or mistyped links still open. */
export const timelineView: UrlCodec<TimelineView> = {
  parse(params) {
    const from = whole(params.get('from'))
    const to = whole(params.get('to'))
    return {
      sort: sortOf(params.get('sort')),
      zoom: from !== null && to !== null && to > from ? { fromMs: from, toMs: to } : null,
      chunk: whole(params.get('chunk')),
      rows: params.get('rows') === 'read' ? 'read' : 'fit',
      collapse: params.get('idle') !== 'keep',
      // Pages of groups count from 1 in the URL.
      part: Math.max(0, (whole(params.get('part')) ?? 1) - 1),
      table: params.get('timeline') === 'table',
      log: params.get('log') === '1',
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
    if (view.log) params.set('log', '1')
    return params
  },
}
