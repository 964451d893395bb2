import { Info, X } from 'lucide-react'
import type { UnreadFilter } from '../../server/contract/sample-filter.ts'
import { IconButton } from '../ui/button.tsx'

/** Problems of a link: invalid filters, or a deleted view. */
export function Notices({
  unread,
  viewGone,
  onDismiss,
}: {
  unread: readonly UnreadFilter[]
  viewGone: boolean
  onDismiss(): void
}) {
  const lines = [
    ...(viewGone ? ['The saved view of this link was deleted. The list is shown without it.'] : []),
    ...unread.map(
      ({ name, value, message }) =>
        `The filter ${name}=${value.slice(0, 60)} was ignored: it ${message}.`,
    ),
  ]
  if (lines.length === 0) return null
  return (
    <div
      role="status"
      className="flex items-start gap-2.5 border-b bg-warn-soft px-5 py-1.5 text-xs text-ink"
    >
      <Info size={14} className="mt-[3px] shrink-0 text-warn" aria-hidden />
      <ul className="min-w-0 flex-1 py-0.5 break-words">
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
      <IconButton label="Dismiss" onClick={onDismiss}>
        <X size={13} aria-hidden />
      </IconButton>
    </div>
  )
}
