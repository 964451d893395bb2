import {
  GROUP_SIGNAL_TEXT,
  GROUP_SIGNALS,
  type GroupSignal,
} from '../../server/contract/group-signal.ts'
import type { BatchViewDto } from '../../server/contract/pages.ts'
import { writeSampleFilter } from '../../server/contract/sample-filter.ts'
import { formatCount } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Section } from '../ui/section.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { isActive } from './batch-cells.tsx'
import { countsOf, noSignalText, SIGNAL_COLOR, SIGNAL_LABEL } from './group-signal-text.ts'

export function GroupSignals({ batch }: { batch: BatchViewDto }) {
  const counts = batch.groupSignals
  const { groups } = countsOf(counts)
  if (groups === 0) return null
  const present = GROUP_SIGNALS.filter((signal) => counts[signal] > 0)
  return (
    <Section title="Group signal" note={noSignalText(counts)}>
      <SegmentBar
        className="mx-5 mb-1 h-2"
        segments={present.map((signal) => ({
          ...{ key: signal, share: counts[signal] / groups, className: swatch(signal) },
          ...(signal !== 'all_failed' && { color: SIGNAL_COLOR[signal] }),
        }))}
      />
      <ul className="px-5 pt-1 pb-3">
        {present.map((signal) => (
          <li key={signal} className="flex items-baseline gap-2 py-0.5">
            <span
              className={`size-2 shrink-0 rounded-[2px] ${swatch(signal)}`}
              style={{ background: fill(signal) }}
              aria-hidden
            />
            <span className="min-w-0 flex-1">
              {!isActive(batch) && signal !== 'empty' ? (
                <PageLink
                  href={`/samples?${writeSampleFilter({ batch: batch.batchId, groupSignal: signal })}`}
                  className="hover:underline"
                >
                  {SIGNAL_LABEL[signal]}
                </PageLink>
              ) : (
                SIGNAL_LABEL[signal]
              )}
              <span className="block text-xs text-ink-3">{GROUP_SIGNAL_TEXT[signal]}</span>
            </span>
            <span className="num">{formatCount(counts[signal])}</span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

function swatch(signal: GroupSignal): string {
  return signal === 'all_failed' ? 'hatch' : ''
}

function fill(signal: GroupSignal): string | undefined {
  return signal === 'all_failed' ? undefined : SIGNAL_COLOR[signal]
}

export function SignalCell({ signal }: { signal: GroupSignal }) {
  return (
    <span
      className="flex items-center gap-1.5 whitespace-nowrap text-xs text-ink-2"
      title={GROUP_SIGNAL_TEXT[signal]}
    >
      <span
        className={`size-2 shrink-0 rounded-[2px] ${swatch(signal)}`}
        style={{ background: fill(signal) }}
        aria-hidden
      />
      {SIGNAL_LABEL[signal]}
    </span>
  )
}
