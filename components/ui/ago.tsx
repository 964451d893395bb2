'use client'

import { dateTime, formatAgo } from '../format/time.ts'
import { useNow } from '../live/live-provider.tsx'

export function Ago({ at }: { at: string | null }) {
  const now = useNow()
  if (at === null) return <span className="text-ink-3">–</span>
  const ms = Date.parse(at)
  return (
    <time dateTime={at} title={dateTime(ms)} className="num whitespace-nowrap">
      {now === 0 ? '' : formatAgo(ms, now)}
    </time>
  )
}
