'use client'

import { AlertDialog } from '@base-ui/react/alert-dialog'
import { Dialog } from '@base-ui/react/dialog'
import { X } from 'lucide-react'
import { type ReactNode, type RefObject, useLayoutEffect } from 'react'
import { Button, IconButton } from './button.tsx'
import { useErrorFocus } from './use-error-focus.ts'

export const BACKDROP =
  'fixed inset-0 z-40 bg-[#00000059] quick transition-opacity data-ending-style:opacity-0 data-starting-style:opacity-0'

/**
 * Returns the focus to where it was before the dialog opened. Base UI cannot do this for a dialog with an `autoFocus`
 * field: it looks up the focused element only after the field has taken the focus, and leaves the focus on the page's
 * body. This component is the first child of a dialog, so that it runs before such a field.
 */
function ReturnFocus() {
  useLayoutEffect(() => {
    const before = document.activeElement
    return () =>
      // The page behind the dialog cannot be focused until the dialog has been removed.
      queueMicrotask(() => {
        if (document.activeElement === document.body && before instanceof HTMLElement)
          before.focus({ preventScroll: true })
      })
  }, [])
  return null
}

export function Sheet({
  open,
  onClose,
  title,
  finalFocus,
  children,
}: {
  open: boolean
  onClose(): void
  title: string
  finalFocus?: RefObject<HTMLElement | null>
  children: ReactNode
}) {
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={BACKDROP} />
        <Dialog.Popup
          finalFocus={finalFocus}
          className="outline-none fixed inset-y-0 right-0 z-50 flex w-full max-w-[440px] flex-col border-l bg-raised shadow-pop quick transition-transform data-ending-style:translate-x-6 data-ending-style:opacity-0 data-starting-style:translate-x-6 data-starting-style:opacity-0"
        >
          <ReturnFocus />
          <header className="flex h-12 shrink-0 items-center border-b px-5">
            <Dialog.Title className="text-md">{title}</Dialog.Title>
            <Dialog.Close
              render={
                <IconButton label="Close" className="ml-auto">
                  <X size={16} aria-hidden />
                </IconButton>
              }
            />
          </header>
          <div className="min-h-0 flex-1 overflow-y-auto">{children}</div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

export function Window({
  open,
  onClose,
  title,
  hideTitle,
  children,
}: {
  open: boolean
  onClose(): void
  title: string
  hideTitle?: boolean
  children: ReactNode
}) {
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={BACKDROP} />
        <Dialog.Popup className="outline-none fixed top-[12vh] left-1/2 z-50 flex max-h-[70vh] w-[calc(100vw-32px)] max-w-[560px] -translate-x-1/2 flex-col overflow-hidden rounded-xl border border-line-strong bg-raised shadow-pop quick transition-[opacity,transform] data-ending-style:opacity-0 data-starting-style:scale-[0.985] data-starting-style:opacity-0">
          <ReturnFocus />
          <Dialog.Title className={hideTitle ? 'sr-only' : 'border-b px-5 py-3 text-md'}>
            {title}
          </Dialog.Title>
          {children}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}

export function Confirm({
  open,
  title,
  children,
  action,
  keep = 'Cancel',
  danger = true,
  busy,
  error,
  onConfirm,
  onClose,
}: {
  open: boolean
  title: string
  children: ReactNode
  action: string
  keep?: string
  danger?: boolean
  busy?: boolean
  error?: ReactNode
  onConfirm(): void
  onClose(): void
}) {
  const { place, submitted } = useErrorFocus<HTMLDivElement>(busy ?? false)
  return (
    <AlertDialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className={BACKDROP} />
        <AlertDialog.Popup
          ref={place}
          className="outline-none fixed top-[22vh] left-1/2 z-50 w-[calc(100vw-32px)] max-w-[420px] -translate-x-1/2 rounded-xl border border-line-strong bg-raised p-5 shadow-pop quick transition-[opacity,transform] data-ending-style:opacity-0 data-starting-style:scale-[0.985] data-starting-style:opacity-0"
        >
          <ReturnFocus />
          <AlertDialog.Title className="text-md">{title}</AlertDialog.Title>
          <AlertDialog.Description className="mt-2 text-ink-2" render={<div />}>
            {children}
          </AlertDialog.Description>
          {error}
          <div className="mt-5 flex justify-end gap-2">
            <AlertDialog.Close render={<Button>{keep}</Button>} />
            <Button
              variant={danger ? 'danger' : 'primary'}
              busy={busy ?? false}
              onClick={() => {
                submitted()
                onConfirm()
              }}
            >
              {action}
            </Button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}
