import { formatCount } from '../format/numbers.ts'
import { SegmentBar } from './segment-bar.tsx'

export function ProgressBar({
  scored,
  failed,
  total,
  running,
  thick,
}: {
  scored: number
  failed: number
  total: number
  running: boolean
  thick?: boolean
}) {
  const part = (n: number) => (total === 0 ? 0 : n / total)
  return (
    <SegmentBar
      role="progressbar"
      aria-label="Samples finished"
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={scored + failed}
      aria-valuetext={`${formatCount(scored)} scored, ${formatCount(failed)} failed of ${formatCount(total)}`}
      className={`w-full ${thick ? 'h-2' : 'h-1.5'}`}
      segments={[
        {
          ...{ key: 'scored', share: part(scored) },
          className: `quick transition-[width] ${running ? 'bg-accent' : 'bg-ink-3'}`,
        },
        { key: 'failed', share: part(failed), className: 'hatch' },
      ]}
    />
  )
}
