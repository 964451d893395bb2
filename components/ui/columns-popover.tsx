'use client'

import { Popover } from '@base-ui/react/popover'
import type { ReactElement, ReactNode } from 'react'
import { MENU_POPUP } from './action-menu.tsx'

export function ColumnsPopover({
  trigger,
  children,
}: {
  trigger: ReactElement
  children: ReactNode
}) {
  return (
    <Popover.Root>
      <Popover.Trigger render={trigger} />
      <Popover.Portal>
        <Popover.Positioner align="end" sideOffset={4} className="z-50">
          <Popover.Popup
            aria-label="Columns"
            className={`${MENU_POPUP} flex max-h-[70vh] w-[min(300px,calc(100vw-24px))] flex-col`}
          >
            {children}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  )
}

export function FindColumn({ value, onChange }: { value: string; onChange(text: string): void }) {
  return (
    <input
      aria-label="Find column"
      placeholder="Find column"
      value={value}
      onChange={(event) => onChange(event.target.value)}
      className="h-7 w-full rounded-md border border-line-strong bg-surface px-2 text-xs placeholder:text-ink-3"
    />
  )
}
