'use client'

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import type { BatchViewDto } from '../../server/contract/pages.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, formatDuration, formatScore } from '../format/numbers.ts'
import { dateTime } from '../format/time.ts'
import { useSession } from '../session/use-session.ts'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { Section } from '../ui/section.tsx'
import { BASE_PATH } from '../url/base-path.ts'
import { MeanStd } from './batch-cells.tsx'
import { GROUP_PAGE } from './group-pages.ts'
import { SIGNAL_LABEL } from './group-signal-text.ts'
import { readLook } from './timeline/canvas-painter.ts'
import { drawPicture, pictureScene } from './timeline/draw-picture.ts'
import { svgPainter } from './timeline/svg-painter.ts'
import { idleStretches, timeScale } from './timeline/time-scale.ts'
import { defaultChunk, prepareTimeline } from './timeline/timeline.prepare.ts'
import { causesText, countsText, longerStage, stragglersText } from './timeline/timeline-words.ts'
import { useElapsed, useTimeline } from './timeline/use-timeline.ts'

/**
 * The print-only sections of a batch page: a header, the timeline as an image, and the first groups as a table. Figures
 * and charts print from the screen version.
 */

/** Number of groups in the printed table. The page lists all groups. */
const GROUPS_PRINTED = 40
/** Width of the printed timeline, px: about the width of a sheet of paper, so that 11 px text keeps its size. */
const PAPER_PX = 860

export function ReportHead({ batch }: { batch: BatchViewDto }) {
  const session = useSession()
  return (
    <header className="border-b px-5 pt-2 pb-3" data-report="head">
      <h1 className="text-xl">
        Batch {batch.batchId} of {batch.run}
      </h1>
      <p className="num mt-1 text-ink-2">
        Step {formatCount(batch.step)}, {batch.split}, {batch.status} · scored by {batch.rewardName}{' '}
        · submitted {dateTime(Date.parse(batch.submittedAt))}
        {batch.completedAt !== null && `, ended ${dateTime(Date.parse(batch.completedAt))}`}
      </p>
      <p className="num mt-1 text-xs text-ink-3">
        {location.origin}
        {BASE_PATH}/batches/{batch.batchId} · printed {dateTime(Date.now())}
        {session.data && ` · rewardops ${session.data.version}`}
      </p>
    </header>
  )
}

/**
 * The timeline of the groups that the page shows. It is drawn like the saved SVG, in completion order and with the
 * default mini-batches.
 */
export function ReportTimeline({ batch, part }: { batch: BatchViewDto; part: number }) {
  const query = useTimeline(batch.batchId, part)
  const model = query.data
  const nowMs = useElapsed(model ?? { ended: true, atMs: 0 }, query.dataUpdatedAt)
  const svg = useMemo(() => {
    if (model === undefined) return null
    const data = prepareTimeline(model, {
      sort: 'completion',
      chunk: defaultChunk(model.totals.groups),
    })
    if (data.rows.length === 0) return null
    const spanMs = Math.max(data.spanMs, nowMs ?? 0)
    const causes = causesText(data.delayByCause)
    const words = {
      title: 'Group timeline',
      lines: [
        countsText(data, model.totals.groups),
        stragglersText(data),
        causes && `Straggler delay by cause: ${causes}`,
      ].filter((line): line is string => Boolean(line)),
    }
    const scene = pictureScene(
      {
        data,
        scale: timeScale(spanMs, idleStretches(data.rows, spanMs, spanMs)),
        window: null,
        nowMs,
        inOrder: true,
      },
      words,
      PAPER_PX,
    )
    const painter = svgPainter(scene.width, scene.height, readLook(document.body).inks, {
      title: words.title,
      description: words.lines.join(' '),
    })
    drawPicture(painter, scene, words)
    return painter.finish()
  }, [model, nowMs])
  if (svg === null) return null
  return (
    <div
      data-report="timeline"
      className="border-b [&>svg]:h-auto [&>svg]:max-h-[230mm] [&>svg]:w-full"
      // biome-ignore lint/security/noDangerouslySetInnerHtml: our own painter escapes every text
      dangerouslySetInnerHTML={{ __html: svg }}
    />
  )
}

export function ReportGroups({ batch }: { batch: BatchViewDto }) {
  const trpc = useTRPC()
  // The on-screen table uses the same query for its first page, so the data are already loaded.
  const { data } = useQuery(
    trpc.batches.groups.queryOptions({
      batchId: batch.batchId,
      after: 0,
      limit: GROUP_PAGE,
      order: 'completion',
    }),
  )
  const groups = data?.items.slice(0, GROUPS_PRINTED) ?? []
  if (groups.length === 0) return null
  const left = batch.groupsCompleted - groups.length
  return (
    <Section
      title="Groups in completion order"
      note={
        left > 0
          ? `the first ${formatCount(groups.length)} of ${formatCount(batch.groupsCompleted)}; the page lists the other ${formatCount(left)}`
          : `all ${formatCount(groups.length)}`
      }
    >
      <table className="grid-table" data-report="groups">
        <ColumnHeads
          columns={[
            { end: 'No.' },
            'Group',
            { end: 'Completed after' },
            { end: 'Samples' },
            { end: 'Failed' },
            { end: 'Mean ± std' },
            { end: 'Min to max' },
            'Signal',
            'Last sample',
          ]}
        />
        <tbody>
          {groups.map((group) => (
            <tr key={group.seq}>
              <td className="num end text-ink-3">{formatCount(group.seq)}</td>
              <td className="max-w-44 truncate font-mono text-xs">{group.uid}</td>
              <td className="end">
                <Quantity of={formatDuration(group.completedMs)} />
              </td>
              <td className="num end">{formatCount(group.size)}</td>
              <td className="num end">{formatCount(group.failed)}</td>
              <td className="end">
                <MeanStd mean={group.mean} std={group.std} />
              </td>
              <td className="num end">
                {group.min === null
                  ? '–'
                  : `${formatScore(group.min)} to ${formatScore(group.max)}`}
              </td>
              <td>{SIGNAL_LABEL[group.signal]}</td>
              <td className="num">
                {group.slowestIndex === null
                  ? '–'
                  : `#${group.slowestIndex}, ${longerStage({
                      queueMs: group.slowestQueueMs ?? 0,
                      scoreMs: group.slowestScoreMs ?? 0,
                    })}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  )
}
