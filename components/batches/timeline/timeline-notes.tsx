'use client'

import { ChevronLeft, ChevronRight } from 'lucide-react'
import { formatCount, plural } from '../../format/numbers.ts'
import { PageLink } from '../../shell/page-link.tsx'
import { IconButton } from '../../ui/button.tsx'
import type { Pointed } from './pointed-tip.tsx'
import type { TimelineData } from './timeline.prepare.ts'
import type { TimelineModel } from './timeline-model.ts'
import { causesText, groupText, sampleText, stragglersText } from './timeline-words.ts'

export function sampleHref(batchId: string, index: number): string {
  return `/samples?batch=${batchId}&sample=${batchId}-${index}`
}

export function LostNote({ data }: { data: TimelineData }) {
  const text = stragglersText(data)
  if (text === null) return null
  const causes = data.stragglers.size > 0 ? causesText(data.delayByCause) : ''
  return (
    <p className="num mb-2 text-xs text-ink-2">
      {text}
      {causes !== '' && <span className="text-ink-3"> · by cause: {causes}</span>}
    </p>
  )
}

export function ReachedNote({
  pointed,
  data,
  batchId,
}: {
  pointed: Pointed | null
  data: TimelineData
  batchId: string
}) {
  const of = pointed?.mark ?? pointed?.row.last ?? null
  return (
    <div className="num mt-2 min-h-8 text-xs text-ink-2">
      <span role="status" data-timeline-reached>
        {pointed && groupText(pointed.row, data.stragglers.has(pointed.row.track.no))}
        {pointed?.mark && `. ${sampleText(pointed.mark)}`}
      </span>
      {of && (
        <PageLink
          href={sampleHref(batchId, of.index)}
          className="ml-3 font-medium whitespace-nowrap text-accent hover:underline"
        >
          Open sample #{of.index}
        </PageLink>
      )}
      <span id="timeline-keys" className={pointed ? 'sr-only' : 'text-ink-3'}>
        ↑ ↓ groups · ← → samples · Enter opens · + − 0 zoom · drag or Ctrl + wheel zooms
      </span>
    </div>
  )
}

export function PartsNote({ model, onPart }: { model: TimelineModel; onPart(part: number): void }) {
  const { part, parts, partGroups, groupsInPart, totals, samplesLeftOut } = model
  if (parts <= 1 && samplesLeftOut === 0) return null
  const from = part * partGroups
  return (
    <div className="mt-2 flex flex-wrap items-center gap-x-2 gap-y-1 text-xs text-ink-2">
      {parts > 1 && (
        <>
          <IconButton
            label="Previous groups"
            disabled={part === 0}
            onClick={() => onPart(part - 1)}
          >
            <ChevronLeft size={15} aria-hidden />
          </IconButton>
          <span className="num">
            Groups {formatCount(from + 1)} to {formatCount(from + groupsInPart)} of{' '}
            {formatCount(totals.groups)} in completion order. The totals above cover only these.
          </span>
          <IconButton
            label="Next groups"
            disabled={part >= parts - 1}
            onClick={() => onPart(part + 1)}
          >
            <ChevronRight size={15} aria-hidden />
          </IconButton>
        </>
      )}
      {samplesLeftOut > 0 && (
        <span className="text-warn">
          {plural(samplesLeftOut, 'sample')} not drawn: these groups exceed the chart’s limit.
        </span>
      )}
    </div>
  )
}
