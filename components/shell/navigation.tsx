'use client'

import { Keyboard, LogOut, Menu as MenuIcon, Monitor, Moon, Search, Sun, User } from 'lucide-react'
import dynamic from 'next/dynamic'
import { usePathname } from 'next/navigation'
import { useState, useSyncExternalStore } from 'react'
import { capitalized } from '../format/text.ts'
import { useSession } from '../session/use-session.ts'
import { IconButton } from '../ui/button.tsx'
import { Mark } from './mark.tsx'
import { PageLink } from './page-link.tsx'
import { isOn, NAVIGATION } from './pages.ts'
import { useSignOut } from './shell-keys.ts'
import { onTheme, readTheme, setTheme, type Theme } from './theme.ts'

const Drawer = dynamic(() => import('../ui/drawer.tsx').then((ui) => ui.Drawer), { ssr: false })

export function SideNavigation({ onKeys }: { onKeys(): void }) {
  return (
    <aside className="sticky top-0 hidden h-dvh w-[204px] shrink-0 flex-col border-r bg-canvas md:flex print:hidden">
      <div className="flex h-12 items-center px-4">
        <Brand />
      </div>
      <NavigationList />
      <NavigationFoot onKeys={onKeys} />
    </aside>
  )
}

export function DrawerNavigation({ onKeys, onPalette }: { onKeys(): void; onPalette(): void }) {
  // The drawer is mounted on first use, because wide screens never need it.
  const [wanted, setWanted] = useState(false)
  const [open, setOpen] = useState(false)
  return (
    <>
      <IconButton
        label="Navigation"
        aria-haspopup="dialog"
        aria-expanded={open}
        className="-ml-1.5 md:hidden"
        onClick={() => {
          setWanted(true)
          setOpen(true)
        }}
      >
        <MenuIcon size={17} aria-hidden />
      </IconButton>
      {wanted && (
        <Drawer open={open} onClose={() => setOpen(false)} title="Navigation" head={<Brand />}>
          <button
            type="button"
            onClick={() => {
              setOpen(false)
              onPalette()
            }}
            className="mx-2.5 mb-2 flex h-8 shrink-0 items-center gap-2.5 rounded-md border px-2 text-ink-3 hover:bg-hover hover:text-ink"
          >
            <Search size={15} strokeWidth={1.8} aria-hidden />
            Go to…
          </button>
          <NavigationList onChosen={() => setOpen(false)} />
          <NavigationFoot
            onKeys={() => {
              setOpen(false)
              onKeys()
            }}
          />
        </Drawer>
      )}
    </>
  )
}

function Brand() {
  return (
    <PageLink href="/" className="flex items-center gap-2 rounded font-semibold tracking-tight">
      <Mark />
      rewardops
    </PageLink>
  )
}

function NavigationList({ onChosen }: { onChosen?: () => void }) {
  const pathname = usePathname()
  return (
    <nav aria-label="Pages" className="flex-1 overflow-y-auto px-2.5 pt-1">
      {NAVIGATION.map((group) => (
        <div key={group.title ?? ''} className="mb-4">
          {group.title && <p className="px-2 pb-1 text-2xs text-ink-3">{group.title}</p>}
          <ul>
            {group.pages.map(({ href, label, icon: Icon }) => (
              <li key={href}>
                <PageLink
                  href={href}
                  onClick={onChosen}
                  aria-current={isOn(pathname, href) ? 'page' : undefined}
                  className="flex h-8 items-center gap-2.5 rounded-md px-2 text-ink-2 hover:bg-[color-mix(in_oklab,var(--ink)_5%,transparent)] hover:text-ink aria-[current=page]:bg-[color-mix(in_oklab,var(--ink)_8%,transparent)] aria-[current=page]:font-medium aria-[current=page]:text-ink quick transition-colors"
                >
                  <Icon size={15} strokeWidth={1.8} aria-hidden />
                  {label}
                </PageLink>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  )
}

function NavigationFoot({ onKeys }: { onKeys(): void }) {
  const session = useSession()
  return (
    <div className="border-t px-4 py-3">
      <div className="flex items-center">
        <ThemeSwitch />
        <IconButton label="Keyboard shortcuts (?)" className="ml-auto" onClick={onKeys}>
          <Keyboard size={15} aria-hidden />
        </IconButton>
        {session.data?.hasKey && <SignOut />}
      </div>
      {session.data?.hasKey && (
        <p
          className="mt-2 flex min-w-0 items-center gap-1.5 text-xs"
          title={`Signed in as ${session.data.name}`}
        >
          <User size={13} className="shrink-0 text-ink-3" aria-hidden />
          <span className="truncate">{session.data.name}</span>
          <span className="ml-auto shrink-0 text-2xs text-ink-3">
            {capitalized(session.data.role ?? '')}
          </span>
        </p>
      )}
      <p className="mt-2.5 h-4 truncate text-2xs text-ink-3" title={session.data?.address}>
        {session.data &&
          `${session.data.version} · ${session.data.address.replace(/^https?:\/\//, '')}`}
      </p>
    </div>
  )
}

function SignOut() {
  const signOut = useSignOut()
  return (
    <IconButton label="Sign out" onClick={signOut}>
      <LogOut size={15} aria-hidden />
    </IconButton>
  )
}

const CHOICES: { theme: Theme; label: string; icon: typeof Sun }[] = [
  { theme: 'light', label: 'Light', icon: Sun },
  { theme: 'dark', label: 'Dark', icon: Moon },
  { theme: 'system', label: 'System', icon: Monitor },
]

function ThemeSwitch() {
  const theme = useSyncExternalStore(onTheme, readTheme, () => 'system')
  return (
    <fieldset aria-label="Theme" className="flex items-center rounded-md border p-px">
      {CHOICES.map(({ theme: choice, label, icon: Icon }) => (
        <button
          key={choice}
          type="button"
          aria-label={label}
          title={label}
          aria-pressed={theme === choice}
          onClick={() => setTheme(choice)}
          className="flex h-6 w-7 items-center justify-center rounded-[5px] text-ink-3 hover:text-ink aria-pressed:bg-hover aria-pressed:text-ink quick transition-colors"
        >
          <Icon size={13} aria-hidden />
        </button>
      ))}
    </fieldset>
  )
}
