import { CircleCheck, CircleX, Clock } from 'lucide-react'
import type { DeliveryState } from '../../server/contract/alerts.ts'

const DELIVERY = {
  delivered: { icon: CircleCheck, text: 'Delivered', tone: 'text-ok' },
  waiting: { icon: Clock, text: 'Pending', tone: 'text-warn' },
  gave_up: { icon: CircleX, text: 'Failed', tone: 'text-bad' },
} as const

export function DeliveryStateView({ state }: { state: DeliveryState }) {
  const { icon: Icon, text, tone } = DELIVERY[state]
  return (
    <span className={`inline-flex items-center gap-1.5 align-middle whitespace-nowrap ${tone}`}>
      <Icon size={13} aria-hidden />
      {text}
    </span>
  )
}
