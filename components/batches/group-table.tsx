// biome-ignore-all lint/a11y/useSemanticElements: rows are positioned by transform, which table elements do not support
// biome-ignore-all lint/a11y/useFocusableInteractive: cells are read-only, and their links take the focus
'use client'

import { useQueries } from '@tanstack/react-query'
import { useVirtualizer } from '@tanstack/react-virtual'
import { useRef, useState } from 'react'
import type { BatchGroupDto, BatchViewDto } from '../../server/contract/pages.ts'
import { useTRPC } from '../api/trpc.ts'
import type { ScoreScale } from '../charts/dot-strip.prepare.ts'
import { DotStrip } from '../charts/dot-strip.tsx'
import { formatCount, formatDuration, formatScore } from '../format/numbers.ts'
import { shortenMiddle } from '../format/text.ts'
import { dateTime } from '../format/time.ts'
import { PageLink } from '../shell/page-link.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Segmented } from '../ui/field.tsx'
import { NewRows } from '../ui/new-rows.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { isActive } from './batch-cells.tsx'
import { GROUP_PAGE, pagesOfRows, seqOfRow } from './group-pages.ts'
import { SignalCell } from './group-signals.tsx'
import { longerStage, waitText } from './timeline/timeline-words.ts'

const isFull = (page: { items: unknown[] } | undefined) => page?.items.length === GROUP_PAGE

const ROW_PX = 36
const COLUMNS = 'grid-cols-[40px_minmax(110px,1fr)_90px_150px_108px_84px_minmax(190px,1.2fr)]'

export function GroupTable({ batch }: { batch: BatchViewDto }) {
  const [order, setOrder] = useState<'completion' | 'latest'>('completion')
  const [latestShown, setLatestShown] = useState(0)
  // With the first completed group on top, new groups are appended at the end. With the last completed on top, new
  // groups would move the rows under the cursor, so the page only announces them.
  const total = order === 'completion' ? batch.groupsCompleted : latestShown
  return (
    <Section
      title="Groups in completion order"
      note={`${formatCount(batch.groupsCompleted)} of ${formatCount(batch.groups)}`}
      actions={
        <Segmented
          label="Sort by"
          value={order}
          onChange={(next) => {
            setLatestShown(batch.groupsCompleted)
            setOrder(next)
          }}
          options={[
            { value: 'completion', label: 'First completed' },
            { value: 'latest', label: 'Last completed' },
          ]}
        />
      }
    >
      {order === 'latest' && (
        <NewRows
          count={batch.groupsCompleted - latestShown}
          noun={['group', 'groups']}
          onShow={() => setLatestShown(batch.groupsCompleted)}
        />
      )}
      {batch.groupsCompleted === 0 ? (
        <p className="px-5 pb-6 text-ink-2">
          {isActive(batch)
            ? 'No groups have completed yet. A group completes when its last sample ends.'
            : 'No groups completed.'}
        </p>
      ) : (
        <GroupRows key={order} batch={batch} total={total} order={order} />
      )}
    </Section>
  )
}

function GroupRows({
  batch,
  total,
  order,
}: {
  batch: BatchViewDto
  total: number
  order: 'completion' | 'latest'
}) {
  const trpc = useTRPC()
  const scroller = useRef<HTMLElement>(null)
  const seenGroups = useRef(0)
  const rows = useVirtualizer({
    count: total,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  })
  const visible = rows.getVirtualItems()
  const fullPages = Math.floor(seenGroups.current / GROUP_PAGE)
  const pages = pagesOfRows(visible[0]?.index ?? 0, visible.at(-1)?.index ?? 0, total, order)
  const fetched = useQueries({
    queries: pages.map((page) =>
      trpc.batches.groups.queryOptions(
        {
          batchId: batch.batchId,
          after: page * GROUP_PAGE,
          limit: GROUP_PAGE,
          order: 'completion',
        },
        {
          staleTime: (query) => (isFull(query.state.data) ? Number.POSITIVE_INFINITY : 1_000),
          meta: { topics: page < fullPages ? [] : [`batch:${batch.batchId}`] },
        },
      ),
    ),
  })
  const bySeq = new Map<number, BatchGroupDto>()
  for (const { data } of fetched) for (const group of data?.items ?? []) bySeq.set(group.seq, group)
  const failed = fetched.find((page) => page.error && page.data === undefined)
  seenGroups.current = Math.max(seenGroups.current, ...bySeq.keys())
  const scale = { min: batch.min ?? 0, max: batch.max ?? 0 }
  return (
    <>
      <Scroll ref={scroller} label="Groups" className="h-[min(62vh,640px)] min-h-64 overflow-auto">
        <div
          role="table"
          aria-label="Groups in completion order"
          aria-rowcount={total + 1}
          className="min-w-[872px]"
        >
          <div role="rowgroup" className="sticky top-0 z-10 bg-surface">
            <div
              role="row"
              className={`grid ${COLUMNS} h-8 items-center gap-x-2.5 border-b px-5 text-xs text-ink-3`}
            >
              <span role="columnheader" className="text-right">
                No.
              </span>
              <span role="columnheader">Group</span>
              <span role="columnheader" className="text-right">
                Completed after
              </span>
              <span role="columnheader" className="num flex w-[150px] justify-between gap-2">
                <span>{formatScore(batch.min)}</span>
                <span>Scores</span>
                <span>{formatScore(batch.max)}</span>
              </span>
              <span role="columnheader" className="text-right">
                Mean ± std
              </span>
              <span role="columnheader">Signal</span>
              <span role="columnheader">Last sample</span>
            </div>
          </div>
          <div role="rowgroup" className="relative" style={{ height: rows.getTotalSize() }}>
            {visible.map((item) => {
              const seq = seqOfRow(item.index, total, order)
              return (
                <div
                  key={seq}
                  role="row"
                  aria-rowindex={item.index + 2}
                  tabIndex={-1}
                  className={`absolute inset-x-0 grid ${COLUMNS} items-center gap-x-2.5 border-b px-5 hover:bg-hover`}
                  style={{ height: ROW_PX, transform: `translateY(${item.start}px)` }}
                >
                  <GroupRow
                    seq={seq}
                    group={bySeq.get(seq)}
                    batchId={batch.batchId}
                    scale={scale}
                  />
                </div>
              )
            })}
          </div>
        </div>
      </Scroll>
      {failed && <FailureView compact error={failed.error} onRetry={() => void failed.refetch()} />}
    </>
  )
}

function GroupRow({
  seq,
  group,
  batchId,
  scale,
}: {
  seq: number
  group: BatchGroupDto | undefined
  batchId: string
  scale: ScoreScale
}) {
  if (group === undefined) {
    return (
      <>
        <span role="cell" className="num text-right text-ink-3">
          {formatCount(seq)}
        </span>
        {[0, 1, 2, 3, 4, 5].map((cell) => (
          <span role="cell" key={cell}>
            <Skeleton height={10} className="w-3/5" />
          </span>
        ))}
      </>
    )
  }
  return (
    <>
      <span role="cell" className="num text-right text-ink-3">
        {formatCount(group.seq)}
      </span>
      <span role="cell" className="min-w-0 truncate">
        <PageLink
          href={`/samples?batch=${batchId}&uid=${encodeURIComponent(group.uid)}`}
          className="font-mono text-xs hover:underline"
          title={group.uid}
        >
          {shortenMiddle(group.uid, 20)}
        </PageLink>
        <span className="num ml-2 text-xs text-ink-3">×{formatCount(group.size)}</span>
      </span>
      <span role="cell" className="text-right" title={dateTime(Date.parse(group.completedAt))}>
        <Quantity of={formatDuration(group.completedMs)} />
      </span>
      <span role="cell">
        <DotStrip scores={group.scores} scale={scale} mean={group.mean} failed={group.failed} />
      </span>
      <span role="cell" className="num text-right">
        {formatScore(group.mean)}
        {group.std !== null && <span className="unit">&nbsp;±&nbsp;{formatScore(group.std)}</span>}
      </span>
      <span role="cell">
        <SignalCell signal={group.signal} />
      </span>
      <span role="cell" className="min-w-0">
        <LastSample group={group} batchId={batchId} />
      </span>
    </>
  )
}

function LastSample({ group, batchId }: { group: BatchGroupDto; batchId: string }) {
  if (group.slowestIndex === null) return <span className="text-ink-3">–</span>
  const queueMs = group.slowestQueueMs ?? 0
  const scoreMs = group.slowestScoreMs ?? 0
  const whole = Math.max(queueMs + scoreMs, 0.001)
  return (
    <span
      className="flex items-center gap-2.5"
      title={`Sample ${group.slowestIndex} finished last: ${waitText('queue', queueMs)}, ${waitText('service', scoreMs)} (first dispatch to result). The straggler delay in the timeline covers only the time after all other samples finished.`}
    >
      <PageLink
        href={`/samples?batch=${batchId}&sample=${batchId}-${group.slowestIndex}`}
        className="num w-11 shrink-0 font-mono text-xs hover:underline"
      >
        #{group.slowestIndex}
      </PageLink>
      <SegmentBar
        className="h-1.5 w-10 shrink-0"
        segments={[
          { key: 'queue', share: queueMs / whole, color: 'var(--data-8)' },
          { key: 'scoring', share: scoreMs / whole, color: 'var(--data-2)' },
        ]}
      />
      <span className="num min-w-0 truncate text-xs text-ink-2">
        {longerStage({ queueMs, scoreMs })}
      </span>
    </span>
  )
}
