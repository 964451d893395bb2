'use client'

import { usePathname, useRouter } from 'next/navigation'
import { createContext, type ReactNode, useContext, useEffect, useState } from 'react'
import { useSession } from '../session/use-session.ts'
import { KeyList } from './key-list.tsx'
import { SideNavigation } from './navigation.tsx'
import { Palette } from './palette.tsx'
import { visitPlace } from './recent-places.ts'
import { useShellKeys } from './shell-keys.ts'

interface ShellContext {
  openPalette(): void
  openKeys(): void
}
const Context = createContext<ShellContext>({ openPalette() {}, openKeys() {} })

/** What the header line of a page opens. */
export function useShell(): ShellContext {
  return useContext(Context)
}

/** Navigation, palette, keys and the place of the page. */
export function Shell({ children }: { children: ReactNode }) {
  const [paletteOpen, setPaletteOpen] = useState(false)
  const [keysOpen, setKeysOpen] = useState(false)
  const session = useSession()
  const router = useRouter()
  const pathname = usePathname()
  const locked = session.data?.auth === 'key' && !session.data.signedIn

  useEffect(() => {
    if (!locked) return
    const here = `${pathname}${location.search}`
    router.replace(here === '/' ? '/login' : `/login?next=${encodeURIComponent(here)}`)
  }, [locked, pathname, router])

  useShellKeys({ onPalette: () => setPaletteOpen(true), onKeys: () => setKeysOpen(true) })
  useEffect(() => visitPlace(pathname), [pathname])

  return (
    <Context.Provider
      value={{ openPalette: () => setPaletteOpen(true), openKeys: () => setKeysOpen(true) }}
    >
      <a
        href="#page"
        className="fixed top-2 left-2 z-50 -translate-y-16 rounded-md bg-accent-fill px-3 py-1.5 text-accent-ink focus:translate-y-0"
      >
        Skip to the page
      </a>
      <div className="flex min-h-dvh">
        <SideNavigation onKeys={() => setKeysOpen(true)} />
        <main id="page" tabIndex={-1} className="min-w-0 flex-1 bg-surface outline-none">
          {locked ? null : children}
        </main>
      </div>
      <Palette open={paletteOpen} onClose={() => setPaletteOpen(false)} />
      <KeyList open={keysOpen} onClose={() => setKeysOpen(false)} />
    </Context.Provider>
  )
}
