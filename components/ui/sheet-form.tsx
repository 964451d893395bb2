'use client'

import type { ReactNode } from 'react'
import type { Refusal } from '../session/use-may.ts'
import { Button } from './button.tsx'

/** A form that fills a sheet: its fields scroll, its buttons stay in sight under them. */
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
  /** What the button that sends it says. */
  action: string
  busy?: boolean
  /** There is nothing to send yet. */
  disabled?: boolean
  /** Why who looks may not send it. */
  refused?: Refusal
  /** At the left of the buttons: a third one, or what is under way. */
  beside?: ReactNode
  /** Its fields check themselves: nothing is left to the browser's own bubbles. */
  onSubmit(): void
  onClose(): void
  children: ReactNode
}) {
  return (
    <form
      noValidate
      className="flex min-h-full flex-col"
      onSubmit={(event) => {
        event.preventDefault()
        // Enter in a field sends a form of one field, whatever its buttons say.
        if (refused === null) onSubmit()
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

/** The buttons of a sheet, always in sight at its foot. */
export function SheetFoot({ children }: { children: ReactNode }) {
  return (
    <footer className="sticky bottom-0 flex items-center justify-end gap-2 border-t bg-raised px-5 py-3">
      {children}
    </footer>
  )
}
