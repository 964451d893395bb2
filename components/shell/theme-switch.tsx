'use client'

import { Monitor, Moon, Sun } from 'lucide-react'
import { useSyncExternalStore } from 'react'
import { onTheme, readTheme, setTheme, type Theme } from './theme.ts'

const CHOICES: { theme: Theme; label: string; icon: typeof Sun }[] = [
  { theme: 'light', label: 'Light', icon: Sun },
  { theme: 'dark', label: 'Dark', icon: Moon },
  { theme: 'system', label: 'System', icon: Monitor },
]

export function ThemeSwitch() {
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
