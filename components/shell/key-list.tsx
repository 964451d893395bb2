'use client'

import { Window } from '../ui/dialog.tsx'
import { useKeyList } from './keys.tsx'
import { useModifier } from './use-modifier.ts'

/** A key as it is printed on one. */
export function KeyCap({ name }: { name: string }) {
  return (
    <kbd className="inline-flex h-5 min-w-5 items-center justify-center rounded border border-line-strong bg-sunken px-1.5 font-mono text-2xs text-ink-2">
      {name}
    </kbd>
  )
}

const PRINTED: Record<string, string> = { Escape: 'Esc', ArrowDown: '↓', ArrowUp: '↑' }

/** The keys that work on this page. */
export function KeyList({ open, onClose }: { open: boolean; onClose(): void }) {
  const keys = useKeyList()
  const modifier = useModifier()
  const groups = [...new Set(keys.map((key) => key.group))].reverse()
  return (
    <Window open={open} onClose={onClose} title="Keys">
      <div className="overflow-y-auto px-5 py-3">
        {groups.map((group) => (
          <section key={group} className="mb-4">
            <h3 className="mb-1 text-xs font-medium text-ink-3">{group}</h3>
            <ul>
              {keys
                .filter((key) => key.group === group)
                .map((key) => (
                  <li key={key.key} className="flex h-8 items-center border-b last:border-0">
                    {key.label}
                    <span className="ml-auto flex gap-1">
                      {key.key.split('+').map((part) => (
                        <KeyCap
                          key={part}
                          name={
                            part === 'mod' ? modifier.trim() : (PRINTED[part] ?? part.toUpperCase())
                          }
                        />
                      ))}
                    </span>
                  </li>
                ))}
            </ul>
          </section>
        ))}
      </div>
    </Window>
  )
}
