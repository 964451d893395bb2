import { memo } from 'react'
import { formatScore, plural } from '../format/numbers.ts'
import { dotRadius, prepareDots, type ScoreScale } from './dot-strip.prepare.ts'

export const DotStrip = memo(function DotStrip({
  scores,
  scale,
  mean,
  failed,
  color = 'var(--data-1)',
}: {
  scores: readonly (number | null)[]
  scale: ScoreScale
  mean: number | null
  /** Number of failed samples. Other samples can lack a score too, for example with the policy `drop_group`. */
  failed: number
  color?: string
}) {
  const { dots, withoutScore } = prepareDots(scores, scale)
  const others = withoutScore - failed
  const width = 150
  const height = 20
  const pad = 7
  const xOf = (x: number) => pad + x * (width - 2 * pad)
  const extent = scale.max - scale.min
  const meanX = mean === null ? null : xOf(extent > 0 ? (mean - scale.min) / extent : 0.5)
  const texts = scores.map((score) => (score === null ? 'no score' : formatScore(score)))
  return (
    <span className="inline-flex items-center gap-1.5 align-middle">
      <svg
        role="img"
        aria-label={`Scores: ${texts.slice(0, 16).join(', ')}${texts.length > 16 ? ` and ${texts.length - 16} more` : ''}`}
        width={width}
        height={height}
        className="block shrink-0"
      >
        <line
          x1={pad}
          x2={width - pad}
          y1={height / 2}
          y2={height / 2}
          stroke="var(--line-strong)"
        />
        {meanX !== null && (
          <line
            x1={meanX}
            x2={meanX}
            y1={3}
            y2={height - 3}
            stroke="var(--ink-3)"
            strokeWidth={1}
          />
        )}
        {dots.map((dot) => (
          <circle
            key={dot.x}
            cx={xOf(dot.x)}
            cy={height / 2}
            r={dotRadius(dot.count)}
            fill={color}
            fillOpacity={0.82}
            stroke="var(--surface)"
            strokeWidth={1}
          />
        ))}
      </svg>
      {failed > 0 && (
        <span
          className="inline-flex items-center gap-1 text-xs text-bad"
          title={`${plural(failed, 'sample')} failed`}
        >
          <span className="hatch inline-block size-2.5 rounded-[2px]" aria-hidden />
          {failed}
        </span>
      )}
      {others > 0 && (
        <span
          className="inline-flex items-center gap-1 text-xs text-ink-3"
          title={`${plural(others, 'sample has', 'samples have')} no score`}
        >
          <span className="inline-block size-2.5 rounded-[2px] border" aria-hidden />
          {others}
        </span>
      )}
    </span>
  )
})
