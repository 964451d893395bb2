'use client'

import { RotateCcw, ZoomIn, ZoomOut } from 'lucide-react'
import { durationText, formatCount } from '../../format/numbers.ts'
import { Button, IconButton } from '../../ui/button.tsx'
import { Segmented } from '../../ui/field.tsx'
import { type TimeScale, type TimeWindow, zoomWindow } from './time-scale.ts'
import { type TimelineView, wholeWindow } from './timeline-url.ts'

/** Up to this many groups fit as readable rows, so the choice of row height is hidden. */
const MAX_READABLE_GROUPS = 20

export function TimelineControls({
  view,
  onView,
  groups,
  groupsShown,
  idleMs,
  scale,
  window: shown,
  onZoom,
}: {
  view: TimelineView
  onView(change: Partial<TimelineView>): void
  groups: number
  groupsShown: number
  idleMs: number
  scale: TimeScale
  window: TimeWindow | null
  onZoom(window: TimeWindow | null): void
}) {
  return (
    <>
      {groups > MAX_READABLE_GROUPS && (
        <Segmented
          label="Row height"
          value={view.rows}
          options={[
            { value: 'fit', label: 'Fit all' },
            { value: 'read', label: 'Readable' },
          ]}
          onChange={(rows) => onView({ rows })}
        />
      )}
      {idleMs > 0 && (
        <Button
          small
          aria-pressed={view.collapse}
          onClick={() => onView({ collapse: !view.collapse })}
        >
          {view.collapse ? 'Show' : 'Collapse'} {durationText(idleMs)} idle
        </Button>
      )}
      <span className="ml-auto flex items-center gap-0.5">
        {shown !== null && (
          <span className="num mr-2 text-xs text-ink-2" data-timeline-window>
            {windowText(shown)} · {formatCount(groupsShown)} of {formatCount(groups)} groups
          </span>
        )}
        <IconButton label="Zoom in" onClick={() => onZoom(zoomWindow(shown, scale, 0.5))}>
          <ZoomIn size={15} aria-hidden />
        </IconButton>
        <IconButton
          label="Zoom out"
          disabled={shown === null}
          onClick={() => onZoom(zoomWindow(shown, scale, 2))}
        >
          <ZoomOut size={15} aria-hidden />
        </IconButton>
        <IconButton label="Show whole batch" disabled={shown === null} onClick={() => onZoom(null)}>
          <RotateCcw size={14} aria-hidden />
        </IconButton>
      </span>
    </>
  )
}

/** The window as text, rounded as in the URL, so that a shared link shows the same numbers. */
function windowText(window: TimeWindow): string {
  const { fromMs, toMs } = wholeWindow(window)
  return `${durationText(fromMs)} to ${durationText(toMs)}`
}
