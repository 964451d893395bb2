// biome-ignore-all lint/a11y/useSemanticElements: rows are positioned by transform, which table elements do not support
// biome-ignore-all lint/a11y/useFocusableInteractive: cells are read-only, and their links take the focus
'use client'

import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef } from 'react'
import { durationText, formatCount, formatDuration } from '../../format/numbers.ts'
import { shortenMiddle } from '../../format/text.ts'
import { PageLink } from '../../shell/page-link.tsx'
import { ColumnHeads } from '../../ui/column-heads.tsx'
import { Quantity } from '../../ui/quantity.tsx'
import { Scroll } from '../../ui/scroll.tsx'
import {
  MIN_STRAGGLER_DELAY_MS,
  type MiniBatch,
  type TimelineData,
  type TimelineRow,
} from './timeline.prepare.ts'
import { causesText, waitedOn } from './timeline-words.ts'

const ROW_PX = 32
const COLUMNS =
  'grid-cols-[52px_minmax(120px,1fr)_92px_92px_108px_92px_92px_84px_minmax(132px,1fr)]'
const HEADS = [
  '#',
  'Group',
  'First dispatch',
  'Completed',
  'Samples finished',
  'Time to median sample',
  'Straggler delay',
  'Last sample',
  'Delay cause',
]

export function TimelineTable({ data, batchId }: { data: TimelineData; batchId: string }) {
  const scroller = useRef<HTMLElement>(null)
  const rows = useVirtualizer({
    count: data.rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  })
  return (
    <Scroll ref={scroller} label="Group timeline, table" className="h-[420px] overflow-auto">
      <div
        role="table"
        aria-label="Group timeline"
        aria-rowcount={data.rows.length + 1}
        className="min-w-[960px]"
      >
        <div role="rowgroup" className="sticky top-0 z-1 bg-surface">
          <div
            role="row"
            aria-rowindex={1}
            className={`grid ${COLUMNS} h-8 items-center gap-x-2.5 border-b px-5 text-xs text-ink-3`}
          >
            {HEADS.map((head, i) => (
              <span
                role="columnheader"
                key={head}
                className={i === 1 || i === 8 ? '' : 'text-right'}
              >
                {head}
              </span>
            ))}
          </div>
        </div>
        <div role="rowgroup" className="relative" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((item) => {
            const row = data.rows[item.index] as TimelineRow
            return (
              <div
                key={row.track.no}
                role="row"
                aria-rowindex={item.index + 2}
                data-group={row.track.uid}
                className={`num absolute inset-x-0 grid ${COLUMNS} items-center gap-x-2.5 border-b px-5 hover:bg-hover`}
                style={{ height: ROW_PX, transform: `translateY(${item.start}px)` }}
              >
                <Cells row={row} batchId={batchId} late={data.stragglers.has(row.track.no)} />
              </div>
            )
          })}
        </div>
      </div>
    </Scroll>
  )
}

function Cells({ row, batchId, late }: { row: TimelineRow; batchId: string; late: boolean }) {
  const { track } = row
  const isDelayed = row.stragglerDelayMs >= MIN_STRAGGLER_DELAY_MS
  return (
    <>
      <span role="cell" className="text-right text-ink-3">
        {track.seq > 0 ? formatCount(track.seq) : '–'}
      </span>
      <span role="cell" className="min-w-0 truncate">
        <PageLink
          href={`/samples?batch=${batchId}&uid=${encodeURIComponent(track.uid)}`}
          className="font-mono text-xs hover:underline"
          title={track.uid}
        >
          {shortenMiddle(track.uid, 22)}
        </PageLink>
      </span>
      <span role="cell" className="text-right">
        {track.samples.length === 0 ? '–' : <Quantity of={formatDuration(row.startMs)} />}
      </span>
      <span role="cell" className="text-right">
        {row.endMs === null ? (
          <span className="text-ink-3">Running</span>
        ) : (
          <Quantity of={formatDuration(row.endMs)} />
        )}
      </span>
      <span role="cell" className="text-right">
        {formatCount(track.samples.length)}
        <span className="unit"> of {formatCount(track.size)}</span>
        {row.failed > 0 && <span className="text-bad"> · {formatCount(row.failed)} failed</span>}
      </span>
      <span role="cell" className="text-right">
        <Quantity of={formatDuration(row.medianMs)} />
      </span>
      <span role="cell" className={`text-right ${late ? 'font-medium' : 'text-ink-3'}`}>
        {row.endMs === null ? (
          <span className="text-ink-3">–</span>
        ) : (
          <Quantity of={formatDuration(row.stragglerDelayMs)} />
        )}
      </span>
      <span role="cell" className="text-right">
        {row.last ? (
          <PageLink
            href={`/samples?batch=${batchId}&sample=${batchId}-${row.last.index}`}
            className="font-mono text-xs hover:underline"
          >
            #{row.last.index}
          </PageLink>
        ) : (
          <span className="text-ink-3">–</span>
        )}
      </span>
      <span
        role="cell"
        className="min-w-0 truncate"
        title={isDelayed ? causesText(row.waits) : undefined}
      >
        {waitedOn(row)}
        {late && <span className="ml-1.5 text-xs text-ink-3">Straggler</span>}
      </span>
    </>
  )
}

export function MiniBatchTable({ miniBatches }: { miniBatches: readonly MiniBatch[] }) {
  if (miniBatches.length === 0) return null
  return (
    <Scroll label="Mini-batches" className="max-h-52 overflow-auto border-t">
      <table className="grid-table">
        <ColumnHeads
          columns={['Mini-batch', { end: 'Groups' }, { end: 'Ready' }, { end: 'After previous' }]}
        />
        <tbody>
          {miniBatches.map((each) => (
            <tr key={each.no}>
              <td className="num">{formatCount(each.no)}</td>
              <td className="num end">
                {formatCount(each.fromSeq)} to {formatCount(each.toSeq)}
              </td>
              <td className="num end">{durationText(each.readyMs)}</td>
              <td className="num end">{durationText(each.afterMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}
