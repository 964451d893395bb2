'use client'

import type { inferRouterOutputs } from '@trpc/server'
import { CircleCheck, CircleDashed, CircleHelp, type LucideIcon, Unlink } from 'lucide-react'
import { useState } from 'react'
import type { AppRouter } from '../../server/api/root.ts'
import { shortenMiddle } from '../format/text.ts'
import { Segmented } from '../ui/field.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'

export type Imported = inferRouterOutputs<AppRouter>['rewards']['importConfig']
type Key = Imported['keys'][number]

const LOOK: Record<Key['status'], { text: string; icon: LucideIcon; tone: string }> = {
  supported: { text: 'Supported', icon: CircleCheck, tone: 'text-ok' },
  not_applicable: { text: 'Not applicable', icon: CircleDashed, tone: 'text-ink-3' },
  unknown: { text: 'Unknown', icon: CircleHelp, tone: 'text-bad' },
  unresolved: { text: 'Unresolved', icon: Unlink, tone: 'text-warn' },
}
const STATUSES = Object.keys(LOOK) as Key['status'][]

export function ImportKeys({ keys }: { keys: readonly Key[] }) {
  const [only, setOnly] = useState<Key['status'] | 'all'>('all')
  if (keys.length === 0) return null
  const counts = new Map(STATUSES.map((status) => [status, 0]))
  for (const { status } of keys) counts.set(status, (counts.get(status) ?? 0) + 1)
  const there = STATUSES.filter((status) => counts.get(status) !== 0)
  // If a new configuration has no key with the selected status, all keys are shown.
  const chosen = only === 'all' || there.includes(only) ? only : 'all'
  const shown = chosen === 'all' ? keys : keys.filter(({ status }) => status === chosen)
  return (
    <Section title="Keys" note={`${shown.length} of ${keys.length}`}>
      <div className="px-5 pb-2">
        <Scroll label="Key filters" className="overflow-x-auto">
          <Segmented
            label="Keys"
            value={chosen}
            onChange={setOnly}
            options={[
              { value: 'all' as const, label: `All ${keys.length}` },
              ...there.map((status) => ({
                value: status,
                label: `${LOOK[status].text} ${counts.get(status)}`,
              })),
            ]}
          />
        </Scroll>
      </div>
      <ul className="border-b">
        {shown.map((key, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: keys of a text do not move
          <Row key={at} row={key} />
        ))}
      </ul>
    </Section>
  )
}

function Row({ row }: { row: Key }) {
  const { key, line, status, note, nearest } = row
  const value = JSON.stringify(row.value ?? null)
  return (
    <li
      data-key={key}
      data-status={status}
      className="grid grid-cols-[28px_minmax(0,1fr)] gap-x-3 border-t px-5 py-1.5 hover:bg-hover sm:grid-cols-[28px_minmax(0,1fr)_128px]"
    >
      <span className="num text-right text-xs leading-5 text-ink-3" title={`Line ${line}`}>
        {line}
      </span>
      <span className="min-w-0">
        <span className="font-mono text-xs leading-5 [overflow-wrap:anywhere]">
          {key}
          <span className="text-ink-3" title={value}>
            {' = '}
            {shortenMiddle(value, 48)}
          </span>
        </span>
        <span className="block text-xs break-words text-ink-2">
          {note}
          {nearest !== undefined && (
            <>
              , did you mean <span className="font-mono text-ink">{nearest}</span>?
            </>
          )}
        </span>
      </span>
      <span className="text-xs leading-5 max-sm:col-start-2">
        <Status status={status} />
      </span>
    </li>
  )
}

function Status({ status }: { status: Key['status'] }) {
  const { text, icon: Icon, tone } = LOOK[status]
  return (
    <span className={`inline-flex items-center gap-1.5 ${tone}`}>
      <Icon size={14} aria-hidden />
      {text}
    </span>
  )
}
