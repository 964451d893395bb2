'use client'

import { ChartColumn, Download, FileImage, Image, Table2 } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { BatchViewDto } from '../../../server/contract/pages.ts'
import { plural } from '../../format/numbers.ts'
import { ActionMenu } from '../../ui/action-menu.tsx'
import { Button, IconButton } from '../../ui/button.tsx'
import { Segmented } from '../../ui/field.tsx'
import { QueryView } from '../../ui/query-view.tsx'
import { saveFile } from '../../ui/save-file.ts'
import { Section } from '../../ui/section.tsx'
import { ChartSkeleton } from '../../ui/skeleton.tsx'
import { useUrl } from '../../url/use-url.ts'
import { isActive } from '../batch-cells.tsx'
import { canvasPainter, openCanvas, readLook } from './canvas-painter.ts'
import { drawPicture, type PictureWords, pictureScene } from './draw-picture.ts'
import { MAX_MINI_BATCHES, type TimelineScene } from './draw-timeline.ts'
import type { Pointed } from './pointed-tip.tsx'
import { svgPainter } from './svg-painter.ts'
import { clampWindow, idleStretches, timeScale } from './time-scale.ts'
import { defaultChunk, prepareTimeline, rowsBetween } from './timeline.prepare.ts'
import { TimelineControls } from './timeline-controls.tsx'
import { TimelineLegend } from './timeline-legend.tsx'
import type { TimelineModel } from './timeline-model.ts'
import { LostNote, PartsNote, ReachedNote, sampleHref } from './timeline-notes.tsx'
import { TimelinePlot } from './timeline-plot.tsx'
import { TimelineStrip } from './timeline-strip.tsx'
import { MiniBatchTable, TimelineTable } from './timeline-table.tsx'
import { TIMELINE_SORTS, timelineView } from './timeline-url.ts'
import { causesText, countsText, stragglersText } from './timeline-words.ts'
import { useElapsed, useTimeline } from './use-timeline.ts'

const TITLE = 'Group timeline'

export function GroupTimeline({ batch }: { batch: BatchViewDto }) {
  const [view] = useUrl(timelineView)
  const query = useTimeline(batch.batchId, view.part)
  return (
    <QueryView
      compact
      query={query}
      skeleton={
        <Section title={TITLE} note="Time since acceptance">
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
  const { batchId } = batch
  const [view, setView] = useUrl(timelineView)
  const [zoom, setZoom] = useSettling(view.zoom, (next) => setView({ zoom: next }))
  const [pointed, setPointed] = useState<Pointed | null>(null)
  const router = useRouter()
  const nowMs = useElapsed(model, updatedAt)
  const { groups } = model.totals
  const chunk = view.chunk ?? defaultChunk(groups)
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
  const seen = useMemo(() => rowsBetween(data, shown, nowMs), [data, shown, nowMs])
  const counts = countsText(data, groups)
  const none = data.rows.length === 0
  const inOrder = view.sort === 'completion'
  const [unsaved, setUnsaved] = useState<string>()
  const save = (kind: 'png' | 'svg') => {
    setUnsaved(undefined)
    const causes = causesText(data.delayByCause)
    const lines = [
      counts,
      stragglersText(data),
      causes && `Straggler delay by cause: ${causes}`,
    ].filter(Boolean)
    savePicture(
      kind,
      `group-completion-${batchId}`,
      { data: seen, scale, window: shown, nowMs, inOrder },
      {
        title: `${TITLE}, ${batchId} of ${batch.run}, step ${batch.step}`,
        lines: lines as string[],
      },
    ).catch((error: Error) => setUnsaved(error.message))
  }
  return (
    <Section
      title={TITLE}
      note={counts}
      actions={
        !none && (
          <Segmented
            label="Sort groups by"
            value={view.sort}
            options={TIMELINE_SORTS}
            onChange={(sort) => setView({ sort })}
          />
        )
      }
      corner={
        !none && (
          <>
            <ActionMenu
              label="Save as image"
              icon={<Download size={15} aria-hidden />}
              actions={[
                {
                  label: 'PNG (for slides)',
                  icon: <Image size={14} aria-hidden />,
                  onSelect: () => save('png'),
                },
                {
                  label: 'SVG (for papers)',
                  icon: <FileImage size={14} aria-hidden />,
                  onSelect: () => save('svg'),
                },
              ]}
            />
            <IconButton
              label={view.table ? `Show ${TITLE} as a chart` : `Show ${TITLE} as a table`}
              aria-pressed={view.table}
              onClick={() => setView({ table: !view.table })}
            >
              {view.table ? (
                <ChartColumn size={15} aria-hidden />
              ) : (
                <Table2 size={15} aria-hidden />
              )}
            </IconButton>
          </>
        )
      }
    >
      {unsaved !== undefined && (
        <p role="alert" className="px-5 pb-2 text-xs text-bad">
          {unsaved}
        </p>
      )}
      {none ? (
        <div className="px-5 pb-4">
          <p className="flex h-60 items-center justify-center rounded-lg border border-dashed px-5 text-center text-ink-3">
            {groups > 0
              ? 'No groups in this range.'
              : isActive(batch)
                ? 'Each group appears as a row once the batch has samples.'
                : 'The batch ended without groups.'}
          </p>
          {model.part > 0 && (
            <Button small className="mt-2" onClick={() => setView({ part: 0, zoom: null })}>
              Show first groups
            </Button>
          )}
        </div>
      ) : (
        <div className="px-5 pb-4">
          <LostNote data={data} />
          <div className="mb-2 flex flex-wrap items-center gap-x-3 gap-y-2">
            <ChunkField
              chunk={chunk}
              groups={groups}
              onChange={(next) => setView({ chunk: next })}
            />
            {!view.table && (
              <TimelineControls
                view={view}
                onView={setView}
                groups={data.rows.length}
                groupsShown={seen.rows.length}
                idleMs={idle.reduce((sum, each) => sum + each.toMs - each.fromMs, 0)}
                scale={scale}
                window={shown}
                onZoom={setZoom}
              />
            )}
          </div>
          {!view.table && (
            <>
              <TimelineStrip
                data={data}
                scale={scale}
                window={shown}
                rows={seen.rows.length}
                readable={view.rows === 'read'}
                onZoom={setZoom}
              />
              <TimelinePlot
                data={seen}
                scale={scale}
                window={shown}
                nowMs={nowMs}
                readable={view.rows === 'read'}
                inOrder={inOrder}
                label={`${TITLE}: ${counts}`}
                onZoom={setZoom}
                onPoint={setPointed}
                onOpen={({ row, mark }) => {
                  const of = mark ?? row.track.samples.at(-1)
                  if (of) router.push(sampleHref(batchId, of.index))
                }}
              />
              <div className="mt-2">
                <TimelineLegend data={data} running={nowMs !== null} />
              </div>
              <ReachedNote pointed={pointed} data={data} batchId={batchId} />
            </>
          )}
          <PartsNote model={model} onPart={(part) => setView({ part, zoom: null })} />
        </div>
      )}
      {!none && view.table && (
        <>
          <TimelineTable data={seen} batchId={batchId} />
          <MiniBatchTable miniBatches={data.miniBatches} />
        </>
      )}
    </Section>
  )
}

function ChunkField({
  chunk,
  groups,
  onChange,
}: {
  chunk: number
  groups: number
  onChange(chunk: number): void
}) {
  const [text, setText] = useState(String(chunk))
  useEffect(() => setText(String(chunk)), [chunk])
  const count = chunk > 0 ? Math.ceil(groups / chunk) : 0
  return (
    <label className="num flex items-center gap-2 text-xs text-ink-2">
      Mini-batch
      <input
        inputMode="numeric"
        aria-label="Groups per mini-batch"
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          if (/^\d{1,6}$/.test(event.target.value)) onChange(Number(event.target.value))
        }}
        onBlur={() => setText(String(chunk))}
        className="h-7 w-14 rounded-md border border-line-strong bg-surface px-2 text-right text-ink hover:border-ink-3"
      />
      groups
      <span className="text-ink-3">
        {count > 0 ? `· ${plural(count, 'mini-batch', 'mini-batches')}` : '· none drawn'}
        {count > MAX_MINI_BATCHES && ', too many to draw'}
      </span>
    </label>
  )
}

/** Maximum width and height of a canvas in browsers, px. */
const MAX_PIXELS = 16_000

/** Saves the view as a file, in the colors of the current theme. @throws when the browser cannot create the image */
async function savePicture(
  kind: 'png' | 'svg',
  name: string,
  scene: Omit<TimelineScene, 'plot' | 'rowPx' | 'scrollPx'>,
  words: PictureWords,
): Promise<void> {
  const picture = pictureScene(scene, words)
  const { width, height } = picture
  const { inks, fonts } = readLook(document.body)
  if (kind === 'svg') {
    const painter = svgPainter(width, height, inks, {
      title: words.title,
      description: words.lines.join(' '),
    })
    drawPicture(painter, picture, words)
    saveFile(new Blob([painter.finish()], { type: 'image/svg+xml' }), `${name}.svg`)
    return
  }
  const canvas = document.createElement('canvas')
  const scale = Math.min(2, MAX_PIXELS / height)
  const context = openCanvas(canvas, width, height, scale)
  if (context === null) throw new Error('This browser has no canvas support.')
  drawPicture(canvasPainter(context, inks, fonts), picture, words)
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, 'image/png'))
  if (blob === null) throw new Error('The browser could not create the image.')
  saveFile(blob, `${name}.png`)
}

/** Delay before the URL is updated, ms. Browsers reject more than about a hundred URL changes in 30 s. */
const SETTLE_MS = 250

/**
 * A value that changes locally immediately and is stored after `SETTLE_MS` without further changes. It also changes
 * when something else, such as the back button, changes the stored value.
 */
function useSettling<T>(kept: T, keep: (value: T) => void): [T, (value: T) => void] {
  const [moving, setMoving] = useState<{ value: T } | null>(null)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const last = useRef(keep)
  last.current = keep
  useEffect(() => () => clearTimeout(timer.current), [])
  const known = JSON.stringify(kept)
  // The local value is kept until the stored one has changed, a few frames after the update.
  // biome-ignore lint/correctness/useExhaustiveDependencies: the effect depends on the change itself
  useEffect(() => {
    if (timer.current === undefined) setMoving(null)
  }, [known])
  const set = useCallback((value: T) => {
    setMoving({ value })
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      timer.current = undefined
      last.current(value)
    }, SETTLE_MS)
  }, [])
  return [moving === null ? kept : moving.value, set]
}
