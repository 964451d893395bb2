import { CircleX, Info, TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import { capitalized } from '../format/text.ts'
import type { ServerNote } from './server-notes.prepare.ts'

const LOOK = {
  error: { icon: CircleX, color: 'text-bad', soft: 'bg-bad-soft' },
  warning: { icon: TriangleAlert, color: 'text-warn', soft: 'bg-warn-soft' },
  info: { icon: Info, color: 'text-ink-3', soft: 'bg-sunken' },
} as const

export function ServerNotes({
  notes,
  inset,
  actions,
}: {
  notes: readonly ServerNote[]
  inset?: boolean
  actions?: (note: ServerNote) => ReactNode
}) {
  return (
    <ul aria-label="Notices" className={inset ? 'space-y-0.5 py-1' : 'border-b'}>
      {notes.map((note) => {
        const { icon: Icon, color, soft } = LOOK[note.level]
        return (
          <li
            key={note.key}
            className={`flex items-start gap-2.5 ${inset ? 'text-xs' : `border-b px-5 py-2 last:border-0 ${soft}`}`}
          >
            <Icon
              size={14}
              className={`mt-[3px] shrink-0 ${color}`}
              aria-label={note.level === 'info' ? 'Note' : capitalized(note.level)}
            />
            <span className="min-w-0 break-words">
              <span className="font-medium">{note.title}.</span>{' '}
              <span className="text-ink-2">{note.text}</span>
            </span>
            {actions && <span className="ml-auto shrink-0">{actions(note)}</span>}
          </li>
        )
      })}
    </ul>
  )
}
