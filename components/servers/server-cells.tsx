'use client'

import { TriangleAlert } from 'lucide-react'
import type { ServerMonitorDto } from '../../server/contract/server-detail.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { hueOf } from '../charts/hue.ts'
import { useHue } from '../charts/use-hue.ts'
import { formatCount, percentText } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { ageText, dateTime } from '../format/time.ts'
import { useNow } from '../live/live-provider.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { MiddleText } from '../ui/middle-text.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { ServerStateView, VerdictView } from '../ui/status.tsx'
import { healthWords, MONITOR_WORDS, serverHref } from './server-words.ts'

/**
 * A server's name with its hue. It is a link unless `link` is false. A name that cannot be in a URL is linked only if
 * the ID is known.
 */
export function ServerName({
  name,
  id,
  link = true,
}: {
  name: string
  id?: string
  link?: boolean
}) {
  const hue = useHue('server', name)
  const inside = (
    <>
      <span className="size-2 shrink-0 rounded-[2px]" style={{ background: hue }} aria-hidden />
      <span className="min-w-0" title={name}>
        <MiddleText text={name} />
      </span>
    </>
  )
  const href = link ? serverHref({ id: id ?? '', name }) : null
  return href === null || href === '/servers/~' ? (
    <span className="inline-flex max-w-full min-w-0 items-center gap-2">{inside}</span>
  ) : (
    <PageLink
      href={href}
      className={`inline-flex max-w-full min-w-0 items-center gap-2 hover:underline ${id === undefined ? '' : 'font-medium'}`}
    >
      {inside}
    </PageLink>
  )
}

export function LoadBar({ server }: { server: Pick<ServerDto, 'inFlight' | 'limit'> }) {
  const share = server.limit === 0 ? 0 : Math.min(1, server.inFlight / server.limit)
  return (
    <span className="flex items-center gap-2">
      <SegmentBar
        className="h-1.5 w-12 shrink-0"
        segments={[{ key: 'in flight', share, color: 'var(--ink-3)' }]}
      />
      <span className="num">
        {formatCount(server.inFlight)}
        <span className="unit">/{formatCount(server.limit)}</span>
      </span>
    </span>
  )
}

export function StateSince({ server }: { server: ServerDto }) {
  return (
    <span className="block leading-[17px]">
      <ServerStateView server={server} />
      <span className="block pl-5 text-2xs text-ink-3">
        <AwakeOr server={server}>
          <For since={server.stateSince} />
        </AwakeOr>
      </span>
    </span>
  )
}

export function For({ since }: { since: string }) {
  const now = useNow()
  return (
    <time dateTime={since} title={dateTime(Date.parse(since))} className="num">
      {now === 0 ? '' : `For ${ageText(now - Date.parse(since))}`}
    </time>
  )
}

/**
 * Shows the time for which a woken server stays awake, or `children` if less than 10 s remain or the server is asleep.
 */
export function AwakeOr({
  server,
  children,
}: {
  server: Pick<ServerDto, 'state' | 'awakeUntil'>
  children?: React.ReactNode
}) {
  const now = useNow()
  const left = server.awakeUntil === null || now === 0 ? 0 : Date.parse(server.awakeUntil) - now
  // Batches extend the time awake by seconds at a time, so below 10 s the text would flicker.
  if (left < 10_000 || server.state === 'sleeping') return children ?? null
  return <span className="num">Awake for {ageText(left)} more</span>
}

export function HealthCell({
  server,
  monitors = [],
}: {
  server: Pick<ServerDto, 'id' | 'health' | 'state'>
  monitors?: readonly ServerMonitorDto[]
}) {
  const reported = healthWords(server.health)
  // Without traffic there are no failures, and "ok" next to "unreachable" would be misleading.
  if (server.state !== 'ready' && reported.tone === 'ok')
    return <span className="text-ink-3">–</span>
  const warning = monitors.find(({ serverId }) => serverId === server.id)
  const { text, detail, tone } =
    warning === undefined || reported.tone !== 'ok'
      ? reported
      : {
          text: MONITOR_WORDS[warning.kind].name,
          detail: `${warning.text}; ${reported.detail}`,
          tone: warning.severity === 'error' ? ('bad' as const) : ('warn' as const),
        }
  const color = { ok: 'text-ink-2', idle: 'text-ink-3', warn: 'text-warn', bad: 'text-bad' }[tone]
  return (
    <span
      className={`inline-flex items-center gap-1.5 whitespace-nowrap ${color}`}
      title={capitalized(detail)}
    >
      {(tone === 'warn' || tone === 'bad') && <TriangleAlert size={13} aria-hidden />}
      {text}
    </span>
  )
}

export function SelfTestCell({ test }: { test: ServerDto['selfTest'] }) {
  if (test === null) return <span className="text-ink-3">–</span>
  return (
    <span className="block leading-[17px]">
      <VerdictView verdict={test.verdict} detail={test.detail} />
      {test.overridden && <span className="block pl-5 text-2xs text-warn">Trusted anyway</span>}
    </span>
  )
}

export function ShareCell({
  name,
  requestShare,
  capacityShare,
}: {
  name: string
  requestShare: number | null
  capacityShare: number | null
}) {
  if (!requestShare && !capacityShare) return <span className="text-ink-3">–</span>
  return (
    <span className="flex items-center gap-2.5">
      <span className="flex w-12 shrink-0 flex-col gap-0.5" aria-hidden>
        <SegmentBar
          segments={[{ key: name, share: requestShare ?? 0, color: hueOf('server', name) }]}
        />
        <SegmentBar
          className="h-1 opacity-60"
          segments={[{ key: name, share: capacityShare ?? 0, color: 'var(--ink-3)' }]}
        />
      </span>
      <span className="num whitespace-nowrap">
        {percentText(requestShare)}
        <span className="unit">&nbsp;/&nbsp;{percentText(capacityShare)}</span>
      </span>
    </span>
  )
}

export function Tags({ tags }: { tags: readonly string[] }) {
  return tags.map((tag) => (
    <span key={tag} className="rounded border px-1 text-2xs font-normal text-ink-3">
      {tag}
    </span>
  ))
}

/** The share of failed requests over the last 10 minutes. 5 % or more is shown as a warning. */
export function ErrorShare({ server: { errorShare } }: { server: ServerDto }) {
  const tone = !errorShare ? 'text-ink-3' : errorShare >= 0.05 ? 'font-medium text-warn' : ''
  return <span className={tone}>{errorShare === 0 ? '0' : percentText(errorShare)}</span>
}
