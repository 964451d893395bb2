import { formatCount } from '../format/numbers.ts'

/**
 * The progress of a batch: scored, failed (hatched), and pending. Any nonzero part is at least one pixel wide, and
 * the bar is full only when all samples have ended.
 */
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
  const part = (n: number) => (total === 0 ? 0 : (n / total) * 100)
  return (
    <span
      role="progressbar"
      aria-label="samples ended"
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={scored + failed}
      aria-valuetext={`${formatCount(scored)} scored, ${formatCount(failed)} failed of ${formatCount(total)}`}
      className={`flex w-full overflow-hidden rounded-full bg-[color-mix(in_oklab,var(--ink)_9%,transparent)] ${thick ? 'h-2' : 'h-1.5'}`}
    >
      <span
        className={`h-full quick transition-[width] ${running ? 'bg-accent' : 'bg-ink-3'}`}
        style={{ width: `${part(scored)}%` }}
      />
      {failed > 0 && (
        <span className="hatch h-full min-w-[2px]" style={{ width: `${part(failed)}%` }} />
      )}
    </span>
  )
}
