'use client'

import {
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useSyncExternalStore,
} from 'react'

/**
 * A key of a page or of the shell. `key` is what `KeyboardEvent.key` says, `mod+` for Ctrl or ⌘; two keys one after the
 * other are written with a space (`g b`). Null: no key, the palette alone does it.
 */
export interface KeyBinding {
  key: string | null
  label: string
  group: string
  /** The palette offers it as well: as what this page does, or what can be done anywhere. */
  palette?: 'page' | 'anywhere'
  run(): void
}

interface KeyRegistry {
  add(bindings: { current: readonly KeyBinding[] }): () => void
  /** As of the last page that came or went: stable between. */
  list(): readonly KeyBinding[]
  /** As of now. */
  now(): readonly KeyBinding[]
  subscribe(listener: () => void): () => void
}

/** The second of two keys is waited for so long. */
const SECOND_KEY_MS = 1_500

function createRegistry(): KeyRegistry {
  const sources: { current: readonly KeyBinding[] }[] = []
  const listeners = new Set<() => void>()
  let all: readonly KeyBinding[] = []
  const changed = () => {
    all = sources.flatMap((source) => source.current)
    for (const listener of listeners) listener()
  }
  return {
    add(bindings) {
      sources.push(bindings)
      changed()
      return () => {
        sources.splice(sources.indexOf(bindings), 1)
        changed()
      }
    },
    list: () => all,
    now: () => sources.flatMap((source) => source.current),
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

const Context = createContext<KeyRegistry | null>(null)

function useRegistry(): KeyRegistry {
  const registry = useContext(Context)
  if (registry === null) throw new Error('keys outside of KeysProvider')
  return registry
}

/** Typing is not a command: fields keep their keys, and so do open dialogs and menus. */
function isTaken(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  // One that fades out is closed already, though the focus is still in it.
  if (target.closest('[role="dialog"][data-closed], [role="menu"][data-closed]') !== null)
    return false
  return (
    target.isContentEditable ||
    target.closest(
      'input, textarea, select, [role="dialog"], [role="alertdialog"], [role="menu"]',
    ) !== null
  )
}

/** Listens for keys for the whole page. The binding added last wins. */
export function KeysProvider({ children }: { children: ReactNode }) {
  const registry = useMemo(createRegistry, [])
  useEffect(() => {
    let first: { key: string; at: number } | null = null
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || event.altKey) return
      const mod = event.metaKey || event.ctrlKey
      if (!mod && isTaken(event.target)) return
      const pressed = mod ? `mod+${event.key.toLowerCase()}` : event.key
      const bindings = registry.now()
      const before = first !== null && event.timeStamp - first.at < SECOND_KEY_MS ? first.key : null
      first = null
      const binding =
        (before === null
          ? undefined
          : bindings.findLast((b) => b.key === `${before} ${pressed}`)) ??
        bindings.findLast((each) => each.key === pressed)
      if (binding !== undefined) {
        event.preventDefault()
        binding.run()
      } else if (bindings.some((each) => each.key?.startsWith(`${pressed} `))) {
        first = { key: pressed, at: event.timeStamp }
      }
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [registry])
  return <Context.Provider value={registry}>{children}</Context.Provider>
}

/** Binds keys while the component is on the page; the newest functions are always the ones that run. */
export function useKeys(bindings: readonly KeyBinding[]): void {
  const registry = useRegistry()
  const current = useRef(bindings)
  current.current = bindings
  useEffect(() => {
    const live = {
      get current() {
        return current.current.map((binding, i) => ({
          ...binding,
          run: () => current.current[i]?.run(),
        }))
      },
    }
    return registry.add(live)
  }, [registry])
}

/** What the palette can do on this page, as of now. */
export function usePaletteBindings(): readonly KeyBinding[] {
  const registry = useRegistry()
  return registry.now().filter((binding) => binding.palette !== undefined)
}

/** The keys that work now, for the list behind `?`. */
export function useKeyList(): readonly KeyBinding[] {
  const registry = useRegistry()
  return useSyncExternalStore(registry.subscribe, registry.list, () => EMPTY)
}

const EMPTY: readonly KeyBinding[] = []
