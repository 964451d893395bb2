import { CircleX } from 'lucide-react'
import type { ReactNode } from 'react'
import { INK_TOKENS } from './painter.ts'
import {
  MIN_STRAGGLER_DELAY_MS,
  MIN_STRAGGLER_SHARE,
  STRAGGLER_DEVIATIONS,
  stragglerCauses,
  type TimelineData,
  WAIT_CAUSES,
} from './timeline.prepare.ts'
import { CAUSE_WORDS } from './timeline-words.ts'

export function TimelineLegend({ data, running }: { data: TimelineData; running: boolean }) {
  const causes = stragglerCauses(data)
  return (
    <ul
      className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-ink-2"
      aria-label="Legend"
    >
      <Entry
        text="Group, first dispatch to completion"
        mark={<Bar ink="var(--data-3)" opacity={0.34} />}
      />
      {running && <Entry text="Running" mark={<Bar ink="var(--data-3)" opacity={0.16} />} />}
      <Entry
        text="Sample finished"
        mark={<span className="size-1.5 rounded-full" style={{ background: 'var(--data-1)' }} />}
      />
      {data.failed > 0 && (
        <Entry
          text="Failed"
          mark={
            <span className="inline-flex items-center gap-1 text-bad">
              <span className="hatch size-2 rounded-[1px] border border-bad" />
              <CircleX size={12} />
            </span>
          }
        />
      )}
      {WAIT_CAUSES.filter((cause) => causes.has(cause)).map((cause) => (
        <Entry
          key={cause}
          text={`Straggler delay: ${CAUSE_WORDS[cause].word}`}
          title={`${CAUSE_WORDS[cause].about} A straggler is the last sample of a group whose tail is unusually long. The tail, from the end of the group’s median sample to the end of its last, exceeds the batch’s median tail by more than ${STRAGGLER_DEVIATIONS} median absolute deviations and is at least ${100 * MIN_STRAGGLER_SHARE} % of the batch’s time so far and ${MIN_STRAGGLER_DELAY_MS} ms. The last sample ends at least ${MIN_STRAGGLER_DELAY_MS} ms after the second-to-last.`}
          mark={
            <span className="inline-flex items-center">
              <Bar ink={`var(${INK_TOKENS[cause]})`} />
              <span
                className="-ml-1 size-2 rounded-full border-[1.5px]"
                style={{ borderColor: `var(${INK_TOKENS[cause]})` }}
              />
            </span>
          }
        />
      ))}
    </ul>
  )
}

function Entry({ mark, text, title }: { mark: ReactNode; text: string; title?: string }) {
  return (
    <li className="flex items-center gap-1.5" title={title}>
      <span className="inline-flex" aria-hidden>
        {mark}
      </span>
      {text}
    </li>
  )
}

function Bar({ ink, opacity = 1 }: { ink: string; opacity?: number }) {
  return <span className="h-1 w-4.5 rounded-full" style={{ background: ink, opacity }} />
}
