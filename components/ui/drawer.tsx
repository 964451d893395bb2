'use client'

import { Dialog } from '@base-ui/react/dialog'
import { X } from 'lucide-react'
import type { ReactNode } from 'react'
import { IconButton } from './button.tsx'
import { BACKDROP } from './dialog.tsx'

export function Drawer({
  open,
  onClose,
  title,
  head,
  children,
}: {
  open: boolean
  onClose(): void
  title: string
  head: ReactNode
  children: ReactNode
}) {
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className={BACKDROP} />
        <Dialog.Popup className="fixed inset-y-0 left-0 z-50 flex w-[264px] flex-col border-r bg-canvas shadow-pop outline-none quick transition-transform data-ending-style:-translate-x-6 data-ending-style:opacity-0 data-starting-style:-translate-x-6 data-starting-style:opacity-0">
          <Dialog.Title className="sr-only">{title}</Dialog.Title>
          <div className="flex h-12 shrink-0 items-center px-4">
            {head}
            <Dialog.Close
              render={
                <IconButton label="Close" className="ml-auto">
                  <X size={16} aria-hidden />
                </IconButton>
              }
            />
          </div>
          {children}
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  )
}
