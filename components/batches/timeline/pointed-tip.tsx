import { durationText, formatCount } from '../../format/numbers.ts'
import { capitalized, shortenMiddle } from '../../format/text.ts'
import { INK_TOKENS } from './painter.ts'
import type { TimelineRow } from './timeline.prepare.ts'
import { MIN_STRAGGLER_DELAY_MS, WAIT_CAUSES } from './timeline.prepare.ts'
import type { SampleMark } from './timeline-model.ts'
import { CAUSE_WORDS } from './timeline-words.ts'

const WIDTH = 264

export interface Pointed {
  row: TimelineRow
  mark: SampleMark | null
}

export function PointedTip({
  pointed: { row, mark },
  x,
  y,
  width,
  height,
  isStraggler,
}: {
  pointed: Pointed
  isStraggler: boolean
  x: number
  y: number
  width: number
  height: number
}) {
  const { track } = row
  const isDelayed = row.stragglerDelayMs >= MIN_STRAGGLER_DELAY_MS
  return (
    <div
      data-timeline-tip
      className="pointer-events-none absolute z-10 rounded-md border border-line-strong bg-raised px-2.5 py-1.5 text-xs shadow-pop"
      style={{
        width: Math.min(WIDTH, width - 8),
        left: Math.max(4, x + 16 + WIDTH > width ? x - WIDTH - 12 : x + 16),
        // In the lower half of the plot, the tooltip is above the pointer, so that later rows stay visible.
        ...(y > height / 2 ? { bottom: height - y + 12 } : { top: y + 14 }),
      }}
    >
      <p className="num flex items-baseline gap-2 font-medium">
        {track.seq > 0 ? `Group ${formatCount(track.seq)}` : 'Running group'}
        <span className="truncate font-mono font-normal text-ink-3">
          {shortenMiddle(track.uid, 22)}
        </span>
      </p>
      {row.startMs !== null && (
        <Line
          label={track.samples.length > 0 ? 'First dispatch' : 'Claimed by worker'}
          value={durationText(row.startMs)}
        />
      )}
      {row.endMs === null ? (
        <Line
          label="Samples finished"
          value={`${formatCount(track.samples.length)} of ${formatCount(track.size)}`}
        />
      ) : (
        <>
          <Line label="Completed" value={durationText(row.endMs)} />
          <Line label="Time to median sample" value={durationText(row.medianMs)} />
        </>
      )}
      {row.failed > 0 && <Line label="Failed" value={formatCount(row.failed)} />}
      {isDelayed && row.last && (
        <>
          <Line
            label={`${isStraggler ? 'Straggler delay' : 'Wait for last sample'}, #${row.last.index}`}
            value={durationText(row.stragglerDelayMs)}
          />
          {WAIT_CAUSES.filter((cause) => row.waits[cause] >= 0.5).map((cause) => (
            <Line
              key={cause}
              label={capitalized(CAUSE_WORDS[cause].word)}
              value={durationText(row.waits[cause])}
              swatch={`var(${INK_TOKENS[cause]})`}
            />
          ))}
        </>
      )}
      {mark && (
        <div className="mt-1 border-t pt-1">
          <p className="num font-medium">
            Sample #{mark.index}
            <span className={`ml-2 font-normal ${mark.reason ? 'text-bad' : 'text-ink-3'}`}>
              {mark.reason ?? 'Scored'}
            </span>
          </p>
          <Line
            label="Dispatched"
            value={mark.dispatchedMs === null ? 'Never' : durationText(mark.dispatchedMs)}
          />
          <Line label="Ended" value={durationText(mark.endedMs)} />
          {mark.server && <Line label="Server" value={mark.server} />}
          {mark.attempts > 1 && <Line label="Attempts" value={formatCount(mark.attempts)} />}
        </div>
      )}
    </div>
  )
}

function Line({ label, value, swatch }: { label: string; value: string; swatch?: string }) {
  return (
    <p className="num flex items-center gap-2 text-ink-2">
      {swatch && (
        <span className="ml-2 size-2 rounded-[2px]" style={{ background: swatch }} aria-hidden />
      )}
      {label}
      <span className="ml-auto truncate pl-4 text-ink">{value}</span>
    </p>
  )
}
