'use client'

import dynamic from 'next/dynamic'
import { usePathname, useRouter } from 'next/navigation'
import { createContext, type ReactNode, useContext, useEffect, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { useSession } from '../session/use-session.ts'
import { collectKeys } from './early-keys.ts'
import { SideNavigation } from './navigation.tsx'
import { preloadPaletteWhenIdle } from './preload-palette.ts'
import { visitPlace } from './recent-places.ts'
import { useRestoredPosition } from './restore-position.ts'
import { focusRow, RowKeys } from './row-keys.ts'
import { useShellKeys } from './shell-keys.ts'

const Palette = dynamic(() => import('./palette.tsx').then((each) => each.Palette), { ssr: false })
const KeyList = dynamic(() => import('./key-list.tsx').then((each) => each.KeyList), { ssr: false })

interface ShellContext {
  openPalette(): void
  openKeys(): void
}
const Context = createContext<ShellContext>({ openPalette() {}, openKeys() {} })

export function useShell(): ShellContext {
  return useContext(Context)
}

const SKIP_LINK =
  'fixed top-2 left-2 z-50 -translate-y-16 rounded-md bg-accent-fill px-3 py-1.5 text-accent-ink focus:translate-y-0'

function skipToResults(): void {
  if (!focusRow(1)) document.getElementById('page')?.focus()
}

export function Shell({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState<'palette' | 'keys' | null>(null)
  // The palette and the shortcut list stay mounted once they have been opened, so that they can fade out and restore
  // the focus.
  const [wanted, setWanted] = useState({ palette: false, keys: false })
  /** Begins with the keys pressed while the palette opens. */
  const [query, setQuery] = useState('')
  const stopCollecting = useRef<(() => void) | null>(null)
  const stop = () => {
    stopCollecting.current?.()
    stopCollecting.current = null
  }
  const close = () => {
    stop()
    setOpen(null)
  }
  const show = (which: 'palette' | 'keys') => {
    if (which === 'keys') stop()
    else if (open !== 'palette' && stopCollecting.current === null) {
      setQuery('')
      // Each key is rendered in the field immediately, because the field may already receive the next key.
      const collect = (keys: string) => flushSync(() => setQuery(keys))
      stopCollecting.current = collectKeys(window, collect, close)
    }
    setWanted((was) => ({ ...was, [which]: true }))
    setOpen(which)
  }
  useEffect(() => () => stopCollecting.current?.(), [])
  useEffect(preloadPaletteWhenIdle, [])
  const session = useSession()
  const router = useRouter()
  const pathname = usePathname()
  const locked = session.data?.auth === 'key' && !session.data.signedIn

  useEffect(() => {
    if (!locked) return
    const here = `${pathname}${location.search}`
    router.replace(here === '/' ? '/login' : `/login?next=${encodeURIComponent(here)}`)
  }, [locked, pathname, router])

  useShellKeys({ onPalette: () => show('palette'), onKeys: () => show('keys') })
  useEffect(() => visitPlace(pathname), [pathname])
  useRestoredPosition(pathname)

  return (
    <Context.Provider value={{ openPalette: () => show('palette'), openKeys: () => show('keys') }}>
      <a href="#page" className={SKIP_LINK}>
        Skip to content
      </a>
      <button type="button" onClick={skipToResults} className={SKIP_LINK}>
        Skip to results
      </button>
      <div className="flex min-h-dvh">
        <SideNavigation onKeys={() => show('keys')} />
        <main id="page" tabIndex={-1} className="min-w-0 flex-1 bg-surface outline-none">
          {locked ? null : (
            <>
              <RowKeys />
              {children}
            </>
          )}
        </main>
      </div>
      {wanted.palette && (
        <Palette
          open={open === 'palette'}
          {...{ query, onQuery: setQuery, onReady: stop, onClose: close }}
        />
      )}
      {wanted.keys && <KeyList open={open === 'keys'} onClose={close} />}
    </Context.Provider>
  )
}
