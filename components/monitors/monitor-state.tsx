import {
  BellOff,
  CircleCheck,
  CircleDashed,
  CircleX,
  type LucideIcon,
  TriangleAlert,
} from 'lucide-react'
import type { MonitorState } from '../../server/contract/monitors.ts'

type Shown = MonitorState | 'off'

export const MONITOR_LOOK: Record<Shown, { icon: LucideIcon; text: string; tone: string }> = {
  ok: { icon: CircleCheck, text: 'OK', tone: 'text-ok' },
  warning: { icon: TriangleAlert, text: 'Warning', tone: 'text-warn' },
  alerting: { icon: CircleX, text: 'Alerting', tone: 'text-bad' },
  insufficient: { icon: CircleDashed, text: 'Not enough data', tone: 'text-ink-3' },
  off: { icon: BellOff, text: 'Disabled', tone: 'text-ink-3' },
}

export function MonitorStateView({ state }: { state: Shown }) {
  const { icon: Icon, text, tone } = MONITOR_LOOK[state]
  return (
    <span className={`inline-flex items-center gap-1.5 align-middle whitespace-nowrap ${tone}`}>
      <Icon size={14} strokeWidth={2} aria-hidden />
      <span>{text}</span>
    </span>
  )
}

export function MonitorStateIcon({ state, about }: { state: Shown; about: string }) {
  const { icon: Icon, text, tone } = MONITOR_LOOK[state]
  const quiet = state === 'ok' ? 'text-ink-3' : tone
  return (
    <span title={`${about}: ${text}`} className={`inline-flex align-middle ${quiet}`}>
      <Icon size={15} strokeWidth={2} role="img" aria-label={`${about}: ${text}`} />
    </span>
  )
}
