'use client'

import { ChartColumn, Download, FileImage, Image, Table2 } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { useMemo, useState } from 'react'
import type { BatchViewDto } from '../../../server/contract/pages.ts'
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
import { clampWindow, idleStretches, timeScale } from './time-scale.ts'
import { prepareTimeline, rowsBetween, usualChunk } from './timeline.prepare.ts'
import { TimelineControls } from './timeline-controls.tsx'
import { TimelineLegend } from './timeline-legend.tsx'
import type { TimelineModel } from './timeline-model.ts'
import { LostNote, PartsNote, ReachedNote, sampleHref } from './timeline-notes.tsx'
import { type Pointed, TimelinePlot } from './timeline-plot.tsx'
import { TimelineStrip } from './timeline-strip.tsx'
import { MiniBatchTable, TimelineTable } from './timeline-table.tsx'
import { TIMELINE_SORTS, timelineView } from './timeline-url.ts'
import { causesText, countsText, lostText } from './timeline-words.ts'
import { useSettling } from './use-settling.ts'
import { useElapsed, useTimeline } from './use-timeline.ts'

const TITLE = 'Group completion'

/** When each group of a batch completed, sample by sample, and what delayed its last sample. */
export function GroupTimeline({ batch }: { batch: BatchViewDto }) {
  const [view] = useUrl(timelineView)
  const query = useTimeline(batch.batchId, view.part)
  return (
    <QueryView
      compact
      query={query}
      skeleton={
        <Section title={TITLE} note="time since acceptance">
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
  const chunk = view.chunk ?? usualChunk(groups)
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
  const save = (kind: 'png' | 'svg') => {
    const causes = causesText(data.lostBy)
    const lines = [counts, lostText(data), causes && `Straggler delay by cause: ${causes}`].filter(
      Boolean,
    )
    void savePicture(
      kind,
      `group-completion-${batchId}`,
      { data: seen, scale, window: shown, nowMs, inOrder },
      {
        title: `${TITLE}, ${batchId} of ${batch.run}, step ${batch.step}`,
        lines: lines as string[],
      },
    )
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
      {none ? (
        <div className="px-5 pb-4">
          <p className="flex h-60 items-center justify-center rounded-lg border border-dashed px-5 text-center text-ink-3">
            {groups > 0
              ? 'This page has no groups.'
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
              <ReachedNote pointed={pointed} batchId={batchId} />
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
