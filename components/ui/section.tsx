import type { ReactNode } from 'react'

export function Section({
  title,
  note,
  actions,
  corner,
  children,
  className,
  id,
}: {
  title: ReactNode
  note?: ReactNode
  actions?: ReactNode
  corner?: ReactNode
  children: ReactNode
  className?: string
  id?: string
}) {
  return (
    <section className={`flex min-w-0 flex-col ${className ?? ''}`} id={id}>
      <div className="flex items-start px-5 py-2">
        <header className="flex min-h-7 min-w-0 flex-1 flex-wrap items-center gap-x-3">
          <h2 className="text-sm leading-7">{title}</h2>
          {note !== undefined && <span className="num text-xs text-ink-3">{note}</span>}
          {actions && (
            // On a phone, the actions of a section with a corner get a line of their own.
            <span
              className={`ml-auto flex items-center gap-1.5 max-sm:flex-wrap print:hidden ${corner ? 'max-sm:mt-1 max-sm:w-full' : ''}`}
            >
              {actions}
            </span>
          )}
        </header>
        {corner && (
          <span className="ml-1.5 flex h-7 shrink-0 items-center gap-1.5 print:hidden">
            {corner}
          </span>
        )}
      </div>
      {children}
    </section>
  )
}
