'use client'

import { Menu } from '@base-ui/react/menu'
import { Ellipsis } from 'lucide-react'
import { Fragment, type ReactNode } from 'react'
import { IconButton } from './button.tsx'

export interface MenuAction {
  label: string
  icon?: ReactNode
  danger?: boolean
  disabled?: boolean
  /** The reason why the user cannot run the action; absent or null if the user can run it. */
  refused?: string | null
  apart?: boolean
  onSelect(): void
}

export const MENU_POPUP =
  'min-w-44 rounded-lg border border-line-strong bg-raised p-1 shadow-pop outline-none quick transition-opacity data-ending-style:opacity-0 data-starting-style:opacity-0'
export const MENU_ITEM =
  'flex h-8 cursor-default items-center gap-2 rounded-md px-2 text-sm outline-none data-highlighted:bg-hover data-disabled:opacity-45'

export function ActionMenu({
  label,
  actions,
  icon,
}: {
  label: string
  actions: MenuAction[]
  icon?: ReactNode
}) {
  return (
    <Menu.Root>
      <Menu.Trigger
        render={<IconButton label={label}>{icon ?? <Ellipsis size={16} aria-hidden />}</IconButton>}
      />
      <Menu.Portal>
        <Menu.Positioner align="end" sideOffset={4} className="z-50">
          <Menu.Popup className={MENU_POPUP}>
            {actions.map((action) => (
              <Fragment key={action.label}>
                {action.apart && <Menu.Separator className="my-1 h-px bg-line" />}
                <Menu.Item
                  disabled={action.disabled || typeof action.refused === 'string'}
                  title={action.refused ?? undefined}
                  onClick={action.onSelect}
                  className={`${MENU_ITEM} ${action.danger ? 'text-bad' : ''}`}
                >
                  {action.icon}
                  {action.label}
                </Menu.Item>
              </Fragment>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  )
}
