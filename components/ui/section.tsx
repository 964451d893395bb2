import type { ReactNode } from 'react'

/** A titled part of a page: hairline, title, what it counts, actions at the right. */
export function Section({
  title,
  note,
  actions,
  children,
  className,
  id,
}: {
  title: ReactNode
  /** n, unit or state, in lighter type beside the title. */
  note?: ReactNode
  actions?: ReactNode
  children: ReactNode
  className?: string
  id?: string
}) {
  return (
    <section className={`flex min-w-0 flex-col ${className ?? ''}`} id={id}>
      <header className="flex min-h-11 flex-wrap items-center gap-x-3 gap-y-1 px-5 py-1.5">
        <h2 className="text-sm">{title}</h2>
        {note !== undefined && <span className="num text-xs text-ink-3">{note}</span>}
        {actions && (
          <span className="ml-auto flex items-center gap-1.5 print:hidden">{actions}</span>
        )}
      </header>
      {children}
    </section>
  )
}
