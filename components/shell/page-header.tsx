'use client'

import { ChevronLeft, Search } from 'lucide-react'
import type { ReactNode } from 'react'
import { LiveToggle } from '../live/live-toggle.tsx'
import { MiddleText } from '../ui/middle-text.tsx'
import { DrawerNavigation } from './navigation.tsx'
import { PageLink } from './page-link.tsx'
import { preloadPalette } from './preload-palette.ts'
import { useShell } from './shell.tsx'
import { useModifier } from './use-modifier.ts'

export function PageHeader({
  title,
  parent,
  state,
  actions,
}: {
  title: ReactNode
  parent?: { href: string; label: string }
  state?: ReactNode
  actions?: ReactNode
}) {
  const { openPalette, openKeys } = useShell()
  return (
    <header
      data-page-header
      className="sticky top-0 z-30 flex h-12 items-center gap-3 border-b bg-surface px-5 print:hidden"
    >
      <DrawerNavigation onKeys={openKeys} onPalette={openPalette} />
      {parent && (
        <PageLink
          href={parent.href}
          aria-label={`Back to ${parent.label}`}
          className="-mx-2 inline-flex size-7 shrink-0 items-center justify-center rounded-md text-ink-2 hover:bg-hover hover:text-ink sm:hidden"
        >
          <ChevronLeft size={17} aria-hidden />
        </PageLink>
      )}
      <h1 className="flex min-w-0 items-center gap-2 text-md">
        {parent && (
          <>
            <PageLink
              href={parent.href}
              className="hidden min-w-0 font-normal text-ink-3 hover:text-ink sm:block"
            >
              <MiddleText text={parent.label} />
            </PageLink>
            <span className="hidden font-normal text-line-strong sm:inline" aria-hidden>
              /
            </span>
          </>
        )}
        <span className="truncate">{title}</span>
      </h1>
      {state && (
        // If there are buttons, a phone has room only for the icon of the state.
        <div
          className={`flex min-w-0 shrink-[9999] items-center gap-3 truncate text-xs ${actions ? 'max-sm:[&_.status-word]:sr-only' : ''}`}
        >
          {state}
        </div>
      )}
      <div className="ml-auto flex shrink-0 items-center gap-2">
        {actions}
        <button
          type="button"
          onClick={openPalette}
          onPointerEnter={preloadPalette}
          onFocus={preloadPalette}
          className={`${actions ? 'hidden sm:flex' : 'flex'} h-7 items-center gap-2 rounded-md border px-2 text-xs text-ink-3 hover:bg-hover hover:text-ink quick transition-colors`}
        >
          <Search size={13} aria-hidden />
          {/* If there are buttons, narrow screens hide this text, to leave room for the title. */}
          <span className={actions ? 'max-[1400px]:sr-only' : 'max-lg:sr-only'}>Go to…</span>
          <kbd aria-hidden className="font-mono text-2xs max-sm:hidden">
            {useModifier()}K
          </kbd>
        </button>
        <LiveToggle />
      </div>
    </header>
  )
}
