import type { AttemptDto, SampleDetailDto } from '../../server/contract/pages.ts'
import { prepareWaterfall, type SegmentKind } from '../charts/waterfall.prepare.ts'
import { durationText } from '../format/numbers.ts'
import { SegmentBar } from '../ui/segment-bar.tsx'

const LOOK: Record<SegmentKind, { label: string; className?: string; color?: string }> = {
  queue: { label: 'queue', color: 'var(--data-8)' },
  backoff: { label: 'backoff', className: 'border border-dashed border-ink-3' },
  slot: { label: 'wait for slot', color: 'var(--data-6)' },
  service: { label: 'scoring', color: 'var(--data-3)' },
  failed: { label: 'failed request', className: 'hatch' },
}

function undispatchedText({
  status,
  attempts,
}: Pick<SampleDetailDto, 'status' | 'attempts'>): string {
  if (attempts > 0) return 'No attempts are stored.'
  if (status === 'scored')
    return 'The sample was submitted with its score, so there are no attempts.'
  if (status === 'failed')
    return 'The sample failed before it was dispatched, so there are no attempts.'
  return 'No attempt has ended yet.'
}

export function AttemptWaterfall({
  sample,
}: {
  sample: Pick<
    SampleDetailDto,
    'submittedAt' | 'queueMs' | 'scoreMs' | 'attemptLog' | 'status' | 'attempts'
  >
}) {
  const { rows, totalMs } = prepareWaterfall(sample)
  if (rows.length === 0) {
    return <p className="text-ink-3">{undispatchedText(sample)}</p>
  }
  const kinds = [...new Set(rows.flatMap((row) => row.segments.map((segment) => segment.kind)))]
  return (
    <>
      <ul className="space-y-1.5">
        {rows.map((row) => (
          <li key={row.key}>
            <div className="grid grid-cols-[72px_minmax(0,1fr)_72px] items-center gap-3">
              <span className="text-xs text-ink-2">{row.title}</span>
              <SegmentBar
                className="h-3.5"
                segments={row.segments.map(({ kind, from, share, ms }) => ({
                  ...{ key: kind, from, share, ...LOOK[kind] },
                  title: `${LOOK[kind].label} ${durationText(ms)}`,
                }))}
              />
              <span className="num text-right text-xs">{durationText(row.ms)}</span>
            </div>
            {row.attempt && <AttemptWords attempt={row.attempt} />}
          </li>
        ))}
      </ul>
      <p className="num mt-2.5 flex flex-wrap items-center gap-x-3 gap-y-1 text-xs text-ink-3">
        <span>{durationText(totalMs)} total</span>
        {kinds.map((kind) => (
          <span key={kind} className="flex items-center gap-1.5">
            <span
              className={`size-2.5 rounded-[2px] ${LOOK[kind].className ?? ''}`}
              style={{ background: LOOK[kind].color }}
              aria-hidden
            />
            {LOOK[kind].label}
          </span>
        ))}
      </p>
    </>
  )
}

function AttemptWords({ attempt }: { attempt: AttemptDto }) {
  const parts = [
    attempt.serverName ?? 'No server',
    attempt.reason ?? attempt.outcome,
    attempt.statusCode === null ? null : `HTTP ${attempt.statusCode}`,
    attempt.workerId === null ? null : `on ${attempt.workerId}`,
  ].filter((part) => part !== null)
  return (
    <p className="num pl-[84px] text-xs text-ink-3">
      {parts.join(' · ')}
      {attempt.detail && <span className="block break-words text-ink-2">{attempt.detail}</span>}
    </p>
  )
}
