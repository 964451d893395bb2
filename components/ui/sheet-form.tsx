'use client'

import type { ReactNode } from 'react'
import type { Refusal } from '../session/use-may.ts'
import { Button } from './button.tsx'
import { useErrorFocus } from './use-error-focus.ts'

export function SheetForm({
  action,
  busy = false,
  disabled = false,
  refused = null,
  beside,
  onSubmit,
  onClose,
  children,
}: {
  action: string
  busy?: boolean
  disabled?: boolean
  refused?: Refusal
  beside?: ReactNode
  /** Must validate the fields, because browser validation is off. */
  onSubmit(): void
  onClose(): void
  children: ReactNode
}) {
  const { place, submitted } = useErrorFocus<HTMLFormElement>(busy)
  return (
    <form
      ref={place}
      noValidate
      className="flex min-h-full flex-col"
      onSubmit={(event) => {
        event.preventDefault()
        // Enter submits a form with a single field even if its buttons are disabled.
        if (refused !== null || busy) return
        submitted()
        onSubmit()
      }}
    >
      <div className="flex-1 space-y-4 px-5 py-4">{children}</div>
      <SheetFoot>
        {beside}
        <Button onClick={onClose}>Close</Button>
        <Button type="submit" variant="primary" refused={refused} busy={busy} disabled={disabled}>
          {action}
        </Button>
      </SheetFoot>
    </form>
  )
}

export function SheetFoot({ children }: { children: ReactNode }) {
  return (
    <footer className="sticky bottom-0 flex items-center justify-end gap-2 border-t bg-raised px-5 py-3">
      {children}
    </footer>
  )
}
