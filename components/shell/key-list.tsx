'use client'

import { Fragment } from 'react'
import { Window } from '../ui/dialog.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { type KeyBinding, useKeyList } from './keys.tsx'
import { useModifier } from './use-modifier.ts'

export function KeyCap({ name }: { name: string }) {
  return (
    <kbd className="inline-flex h-5 min-w-5 items-center justify-center rounded border border-line-strong bg-sunken px-1.5 font-mono text-2xs text-ink-2">
      {name}
    </kbd>
  )
}

const PRINTED: Record<string, string> = { Escape: 'Esc', ArrowDown: '↓', ArrowUp: '↑' }

export function KeyCaps({ keys }: { keys: string }) {
  const modifier = useModifier()
  return (
    <span className="flex shrink-0 items-center gap-1">
      {keys.split(' ').map((chord, i) => (
        <Fragment key={chord}>
          {i > 0 && <span className="text-2xs text-ink-3">then</span>}
          {chord.split('+').map((part) => (
            <KeyCap
              key={part}
              name={part === 'mod' ? modifier.trim() : (PRINTED[part] ?? part.toUpperCase())}
            />
          ))}
        </Fragment>
      ))}
    </span>
  )
}

export function KeyList({ open, onClose }: { open: boolean; onClose(): void }) {
  const keys = useKeyList().filter((each) => each.key !== null) as (KeyBinding & { key: string })[]
  const groups = [...new Set(keys.map((key) => key.group))].reverse()
  return (
    <Window open={open} onClose={onClose} title="Keyboard shortcuts">
      <Scroll label="All shortcuts" className="overflow-y-auto px-5 py-3">
        {groups.map((group) => (
          <section key={group} className="mb-4">
            <h3 className="mb-1 text-xs font-medium text-ink-3">{group}</h3>
            <ul>
              {keys
                .filter((key) => key.group === group)
                .map((key) => (
                  <li key={key.key} className="flex h-8 items-center border-b last:border-0">
                    {key.label}
                    <span className="ml-auto">
                      <KeyCaps keys={key.key} />
                    </span>
                  </li>
                ))}
            </ul>
          </section>
        ))}
      </Scroll>
    </Window>
  )
}
