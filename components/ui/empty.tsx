import type { LucideIcon } from 'lucide-react'
import type { ReactNode } from 'react'

export function Empty({
  icon: Icon,
  title,
  children,
  actions,
}: {
  icon: LucideIcon
  title: string
  children?: ReactNode
  actions?: ReactNode
}) {
  return (
    <div className="mx-auto flex max-w-md flex-col items-center px-5 py-16 text-center">
      <span className="mb-4 flex size-10 items-center justify-center rounded-lg border bg-sunken text-ink-3">
        <Icon size={18} aria-hidden />
      </span>
      <p className="text-md font-semibold">{title}</p>
      {children && <div className="mt-1.5 text-ink-2 text-balance">{children}</div>}
      {actions && <div className="mt-5 flex flex-wrap justify-center gap-2">{actions}</div>}
    </div>
  )
}
