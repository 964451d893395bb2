'use client'

import {
  ChartColumn,
  ChevronLeft,
  ChevronRight,
  Download,
  FileImage,
  Image,
  RotateCcw,
  Table2,
  ZoomIn,
  ZoomOut,
} from 'lucide-react'
import { useRouter } from 'next/navigation'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { BatchViewDto } from '../../../server/wire/pages.ts'
import { durationText, formatCount, plural } from '../../format/numbers.ts'
import { PageLink } from '../../shell/page-link.tsx'
import { ActionMenu } from '../../ui/action-menu.tsx'
import { Button, IconButton } from '../../ui/button.tsx'
import { Segmented } from '../../ui/field.tsx'
import { QueryView } from '../../ui/query-view.tsx'
import { Section } from '../../ui/section.tsx'
import { ChartSkeleton } from '../../ui/skeleton.tsx'
import { useUrl } from '../../url/use-url.ts'
import { isActive } from '../batch-cells.tsx'
import { ChunkField } from './chunk-field.tsx'
import { savePicture } from './save-picture.ts'
import { clampWindow, idleStretches, type TimeWindow, timeScale, zoomWindow } from './time-scale.ts'
import { prepareTimeline, usualChunk } from './timeline.prepare.ts'
import { TimelineLegend } from './timeline-legend.tsx'
import type { TimelineModel } from './timeline-model.ts'
import { type Pointed, TimelinePlot } from './timeline-plot.tsx'
import { TimelineStrip } from './timeline-strip.tsx'
import { MiniBatchTable, TimelineTable } from './timeline-table.tsx'
import { TIMELINE_SORTS, timelineView } from './timeline-url.ts'
import { causesText, countsText, groupText, lostText, sampleText } from './timeline-words.ts'
import { useElapsed, useTimeline } from './use-timeline.ts'

const TITLE = 'Group completion'
/** The address follows a zoom once it rests: browsers refuse more than about a hundred changes in half a minute. */
const SETTLE_MS = 250

/** When each group of a batch came, sample by sample, and what the last one of it was waited for. */
export function GroupTimeline({ batch }: { batch: BatchViewDto }) {
  const [view] = useUrl(timelineView)
  const query = useTimeline(batch.batchId, view.part)
  return (
    <QueryView
      compact
      query={query}
      skeleton={
        <Section title={TITLE} note="loading">
          <ChartSkeleton height={440} />
        </Section>
      }
    >
      {(model) => <Timeline batch={batch} model={model} updatedAt={query.dataUpdatedAt} />}
    </QueryView>
  )
}

function Timeline({
  batch,
  model,
  updatedAt,
}: {
  batch: BatchViewDto
  model: TimelineModel
  updatedAt: number
}) {
  const [view, setView] = useUrl(timelineView)
  const [zoom, setZoom] = useSettling(view.zoom, (next) => setView({ zoom: next }))
  const [pointed, setPointed] = useState<Pointed | null>(null)
  const router = useRouter()
  const nowMs = useElapsed(model, updatedAt)
  const chunk = view.chunk ?? usualChunk(model.totals.groups)
  const data = useMemo(
    () => prepareTimeline(model, { sort: view.sort, chunk }),
    [model, view.sort, chunk],
  )
  const spanMs = Math.max(data.spanMs, nowMs ?? 0)
  const idle = useMemo(() => idleStretches(data.rows, spanMs, spanMs), [data, spanMs])
  const scale = useMemo(
    () => timeScale(spanMs, view.collapse ? idle : []),
    [spanMs, idle, view.collapse],
  )
  const shown = useMemo(() => clampWindow(zoom, scale), [zoom, scale])
  const { groups } = model.totals
  const counts = countsText(data, groups)
  const idleMs = idle.reduce((sum, each) => sum + each.toMs - each.fromMs, 0)
  const openSample = ({ row, mark }: Pointed) => {
    const of = mark ?? row.track.samples.at(-1)
    if (of) router.push(sampleHref(batch.batchId, of.index))
  }
  const save = (kind: 'png' | 'svg') => {
    const words = [counts, lostText(data), causesOf(data.lostBy)].filter((line) => line !== null)
    void savePicture(
      kind,
      `group-completion-${batch.batchId}`,
      { data, scale, window: shown, nowMs, inOrder: view.sort === 'completion' },
      { title: `${TITLE}, ${batch.batchId} of ${batch.run}, step ${batch.step}`, lines: words },
    )
  }
  const none = data.rows.length === 0
  return (
    <Section
      title={TITLE}
      note={counts}
      actions={
        <>
          {!none && (
            <Segmented
              label="Order of the groups"
              value={view.sort}
              options={TIMELINE_SORTS}
              onChange={(sort) => setView({ sort })}
            />
          )}
          <ActionMenu
            label="Save as a picture"
            icon={<Download size={15} aria-hidden />}
            actions={[
              {
                label: 'PNG',
                icon: <Image size={14} aria-hidden />,
                disabled: none,
                onSelect: () => save('png'),
              },
              {
                label: 'SVG',
                icon: <FileImage size={14} aria-hidden />,
                disabled: none,
                onSelect: () => save('svg'),
              },
            ]}
          />
          <IconButton
            label={view.table ? `Show ${TITLE} as a chart` : `Show ${TITLE} as a table`}
            aria-pressed={view.table}
            onClick={() => setView({ table: !view.table })}
          >
            {view.table ? <ChartColumn size={15} aria-hidden /> : <Table2 size={15} aria-hidden />}
          </IconButton>
        </>
      }
    >
      <div className="px-5 pb-4">
        {none ? (
          <p className="flex h-60 items-center justify-center rounded-lg border border-dashed text-ink-3">
            {isActive(batch)
              ? 'Groups appear here as samples are taken in.'
              : 'The batch had no groups.'}
          </p>
        ) : (
          <>
            <Lost data={data} />
            <div className="mb-2 flex flex-wrap items-center gap-x-3 gap-y-2">
              <ChunkField
                chunk={chunk}
                groups={groups}
                onChange={(next) => setView({ chunk: next })}
              />
              {!view.table && (
                <>
                  {data.rows.length > 20 && (
                    <Segmented
                      label="Rows"
                      value={view.rows}
                      options={[
                        { value: 'fit', label: 'All groups' },
                        { value: 'read', label: 'Rows' },
                      ]}
                      onChange={(rows) => setView({ rows })}
                    />
                  )}
                  {idleMs > 0 && (
                    <Button
                      small
                      aria-pressed={view.collapse}
                      onClick={() => setView({ collapse: !view.collapse })}
                    >
                      {view.collapse ? 'Show' : 'Collapse'} {durationText(idleMs)} idle
                    </Button>
                  )}
                  <span className="ml-auto flex items-center gap-0.5">
                    {shown !== null && (
                      <span className="num mr-2 text-xs text-ink-2" data-timeline-window>
                        {durationText(shown.fromMs)} to {durationText(shown.toMs)}
                      </span>
                    )}
                    <IconButton
                      label="Zoom in"
                      onClick={() => setZoom(zoomWindow(shown, scale, 0.5))}
                    >
                      <ZoomIn size={15} aria-hidden />
                    </IconButton>
                    <IconButton
                      label="Zoom out"
                      disabled={shown === null}
                      onClick={() => setZoom(zoomWindow(shown, scale, 2))}
                    >
                      <ZoomOut size={15} aria-hidden />
                    </IconButton>
                    <IconButton
                      label="Show the whole batch"
                      disabled={shown === null}
                      onClick={() => setZoom(null)}
                    >
                      <RotateCcw size={14} aria-hidden />
                    </IconButton>
                  </span>
                </>
              )}
            </div>
          </>
        )}
        {!none && !view.table && (
          <>
            <TimelineStrip data={data} scale={scale} window={shown} onZoom={setZoom} />
            <TimelinePlot
              data={data}
              scale={scale}
              window={shown}
              nowMs={nowMs}
              readable={view.rows === 'read'}
              inOrder={view.sort === 'completion'}
              label={`${TITLE}: ${counts}`}
              onZoom={setZoom}
              onPoint={setPointed}
              onOpen={openSample}
            />
            <div className="mt-2">
              <TimelineLegend data={data} running={nowMs !== null} />
            </div>
            <Reached pointed={pointed} batchId={batch.batchId} />
          </>
        )}
        <Parts model={model} onPart={(part) => setView({ part, zoom: null })} />
      </div>
      {!none && view.table && (
        <>
          <TimelineTable data={data} batchId={batch.batchId} />
          <MiniBatchTable miniBatches={data.miniBatches} />
        </>
      )}
    </Section>
  )
}

const sampleHref = (batchId: string, index: number) =>
  `/samples?batch=${batchId}&sample=${batchId}-${index}`

function causesOf(lostBy: Parameters<typeof causesText>[0]): string | null {
  const text = causesText(lostBy)
  return text === '' ? null : `Waited on: ${text}`
}

/** What the batch lost to last samples, and on what. */
function Lost({ data }: { data: ReturnType<typeof prepareTimeline> }) {
  const text = lostText(data)
  if (text === null) return null
  const causes = data.stragglers.size > 0 ? causesText(data.lostBy) : ''
  return (
    <p className="num mb-2 text-xs text-ink-2">
      {text}
      {causes !== '' && <span className="text-ink-3"> · waited on {causes}</span>}
    </p>
  )
}

/** What the keys or a click have reached, in words and with its link; before, the keys. */
function Reached({ pointed, batchId }: { pointed: Pointed | null; batchId: string }) {
  const of = pointed?.mark ?? pointed?.row.last ?? null
  return (
    <div className="mt-2 flex min-h-6 flex-wrap items-baseline gap-x-3 gap-y-1 text-xs">
      <p role="status" className="num text-ink-2" data-timeline-reached>
        {pointed &&
          `${groupText(pointed.row)}${pointed.mark ? ` — ${sampleText(pointed.mark)}` : ''}`}
      </p>
      {of && (
        <PageLink
          href={sampleHref(batchId, of.index)}
          className="font-medium text-accent hover:underline"
        >
          Open sample #{of.index}
        </PageLink>
      )}
      <p id="timeline-keys" className={pointed ? 'sr-only' : 'text-ink-3'}>
        ↑ ↓ groups · ← → samples · Enter opens · + − 0 zoom · drag or Ctrl + wheel zooms
      </p>
    </div>
  )
}

/** Which groups of many are shown, and what was left out. */
function Parts({ model, onPart }: { model: TimelineModel; onPart(part: number): void }) {
  const { part, parts, partGroups, groupsInPart, totals, samplesLeftOut } = model
  if (parts <= 1 && samplesLeftOut === 0) return null
  const from = part * partGroups
  return (
    <div className="mt-2 flex flex-wrap items-center gap-x-2 gap-y-1 text-xs text-ink-2">
      {parts > 1 && (
        <>
          <IconButton label="Groups before" disabled={part === 0} onClick={() => onPart(part - 1)}>
            <ChevronLeft size={15} aria-hidden />
          </IconButton>
          <span className="num">
            Groups {formatCount(from + 1)} to {formatCount(from + groupsInPart)} of{' '}
            {formatCount(totals.groups)} in completion order; sums above are of these
          </span>
          <IconButton
            label="Groups after"
            disabled={part >= parts - 1}
            onClick={() => onPart(part + 1)}
          >
            <ChevronRight size={15} aria-hidden />
          </IconButton>
        </>
      )}
      {samplesLeftOut > 0 && (
        <span className="text-warn">
          {plural(samplesLeftOut, 'sample')} of the part are not drawn: it has more than can be.
        </span>
      )}
    </div>
  )
}

/** A value that changes at once here and is kept, once it rests; a change from there (the back button) wins. */
function useSettling(
  kept: TimeWindow | null,
  keep: (value: TimeWindow | null) => void,
): [TimeWindow | null, (value: TimeWindow | null) => void] {
  const [moving, setMoving] = useState<{ value: TimeWindow | null } | null>(null)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const last = useRef(keep)
  last.current = keep
  useEffect(() => () => clearTimeout(timer.current), [])
  const set = useCallback((value: TimeWindow | null) => {
    setMoving({ value })
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      last.current(value)
      setMoving(null)
    }, SETTLE_MS)
  }, [])
  return [moving === null ? kept : moving.value, set]
}
