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
 * A shortcut of a page or the shell. `key` is a `KeyboardEvent.key`; `mod+` stands for Ctrl or ⌘, and a sequence of two
 * keys has a space (`g b`). `key` is null for an action that only the palette lists.
 */
export interface KeyBinding {
  key: string | null
  label: string
  group: string
  /** Set if the palette also lists the action: as an action of the page, or as a global one. */
  palette?: 'page' | 'anywhere'
  run(): void
}

interface KeyRegistry {
  add(bindings: { current: readonly KeyBinding[] }): () => void
  /** The bindings, updated only when a page mounts or unmounts. */
  list(): readonly KeyBinding[]
  /** The bindings with their current functions. */
  now(): readonly KeyBinding[]
  subscribe(listener: () => void): () => void
}

/** Timeout for the second key of a sequence. */
const SECOND_KEY_MS = 1_500

function createRegistry(): KeyRegistry {
  const sources: { current: readonly KeyBinding[] }[] = []
  const listeners = new Set<() => void>()
  let all: readonly KeyBinding[] = []
  const changed = () => {
    const bindings = sources.flatMap((source) => source.current)
    // A page's shortcut replaces the shell's shortcut with the same key.
    all = bindings.filter(
      ({ key }, at) => key === null || bindings.findLastIndex((each) => each.key === key) === at,
    )
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

/** True if a field, dialog or menu handles the keys, so that shortcuts are disabled. */
function isTaken(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false
  // A closing dialog may still have the focus.
  if (target.closest('[role="dialog"][data-closed], [role="menu"][data-closed]') !== null)
    return false
  return (
    target.isContentEditable ||
    target.closest(
      'input, textarea, [role="combobox"], [role="listbox"], [role="dialog"], [role="alertdialog"], [role="menu"]',
    ) !== null
  )
}

/** Listens for shortcuts on the whole page. The most recently added binding wins. */
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

/** Binds shortcuts while the component is mounted. A shortcut runs the function of the latest render. */
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

export function usePaletteBindings(): readonly KeyBinding[] {
  const registry = useRegistry()
  return registry.now().filter((binding) => binding.palette !== undefined)
}

export function useKeyList(): readonly KeyBinding[] {
  const registry = useRegistry()
  return useSyncExternalStore(registry.subscribe, registry.list, () => EMPTY)
}

const EMPTY: readonly KeyBinding[] = []
