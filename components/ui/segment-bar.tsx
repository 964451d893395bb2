import type { ComponentProps } from 'react'

/** `share` and `from` are fractions of the bar's length. */
interface Segment {
  key: string | number
  share: number
  /** By default the end of the previous segment. */
  from?: number
  color?: string
  className?: string
  title?: string
}

/** A bar of segments. A segment above 0 is at least 2 px long, so that one failure in a million remains visible. */
export function SegmentBar({
  segments,
  className = 'h-1.5',
  ...props
}: { segments: readonly Segment[] } & ComponentProps<'span'>) {
  let end = 0
  return (
    <span
      aria-hidden={props.role === undefined || undefined}
      {...props}
      className={`relative block overflow-hidden rounded-[3px] bg-[color-mix(in_oklab,var(--ink)_9%,transparent)] ${className}`}
    >
      {segments.map(({ key, share, from = end, color, className: look = '', title }) => {
        end = from + share
        if (share <= 0) return null
        return (
          <span
            key={key}
            title={title}
            className={`absolute inset-y-0 ${look}`}
            style={{
              left: `min(${from * 100}%, 100% - 2px)`,
              width: `max(${share * 100}% - ${end > 0.9999 ? 0 : 1}px, 2px)`,
              background: color,
            }}
          />
        )
      })}
    </span>
  )
}
