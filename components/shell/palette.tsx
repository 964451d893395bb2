'use client'

import { useQuery } from '@tanstack/react-query'
import {
  Boxes,
  CornerDownLeft,
  Layers,
  ListTree,
  type LucideIcon,
  PanelsTopLeft,
  Search,
  Server,
  Zap,
} from 'lucide-react'
import { usePathname } from 'next/navigation'
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { promptsHref } from '../prompts/prompts-url.ts'
import { serverHref } from '../servers/server-words.ts'
import { Window } from '../ui/dialog.tsx'
import { BATCH_LOOK, stateLook } from '../ui/status.tsx'
import { KeyCap, KeyCaps } from './key-list.tsx'
import { usePaletteBindings } from './keys.tsx'
import { useLeave } from './leave.tsx'
import { NAVIGATION } from './pages.ts'
import { type PaletteEntry, paletteSections, THIS_PAGE } from './palette.prepare.ts'
import { readPlaces } from './recent-places.ts'

const ICONS: Record<PaletteEntry['kind'], LucideIcon> = {
  page: PanelsTopLeft,
  batch: Layers,
  run: ListTree,
  server: Server,
  sample: Boxes,
  action: Zap,
}

const PAGE_ICONS = new Map(
  NAVIGATION.flatMap((group) => group.pages).map(({ href, icon }) => [href, icon]),
)

interface PaletteProps {
  query: string
  onQuery(query: string): void
  /** Called when the text field has the focus and receives all further keys. */
  onReady(): void
  onClose(): void
}

export function Palette({ open, ...props }: PaletteProps & { open: boolean }) {
  return (
    <Window open={open} onClose={props.onClose} title="Command palette" hideTitle>
      {open && <PaletteBody {...props} />}
    </Window>
  )
}

function PaletteBody({ query, onQuery, onReady, onClose }: PaletteProps) {
  const leave = useLeave()
  const listId = useId()
  const isReady = useRef(false)
  const [at, setAt] = useState(0)
  const entries = useEntries()
  const pathname = usePathname()
  const [recent] = useState(() => readPlaces().filter((place) => place !== pathname))
  const sections = useMemo(() => paletteSections(entries, query, recent), [entries, query, recent])
  const found = sections.flatMap((section) => section.entries)
  const chosen = Math.min(at, Math.max(0, found.length - 1))
  const list = useRef<HTMLDivElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: typing also moves the selection
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' })
  }, [chosen, query])
  const take = (entry: PaletteEntry | undefined) => {
    if (entry === undefined) return
    onClose()
    if (entry.href !== null) leave.open(entry.href)
    // The action runs after the focus is restored, because the action may move the focus.
    else requestAnimationFrame(() => entry.run?.())
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return
    if (event.key === 'Enter') take(found[chosen])
    else if (event.key === 'ArrowDown') setAt((chosen + 1) % Math.max(1, found.length))
    else if (event.key === 'ArrowUp') setAt((chosen + found.length - 1) % Math.max(1, found.length))
    else if (event.key === 'Home' && query === '') setAt(0)
    else if (event.key === 'End' && query === '') setAt(found.length - 1)
    else return
    event.preventDefault()
  }
  return (
    <>
      <div className="flex items-center gap-2.5 border-b px-4">
        <Search size={15} className="shrink-0 text-ink-3" aria-hidden />
        <input
          role="combobox"
          aria-expanded
          aria-controls={listId}
          aria-activedescendant={found[chosen] ? `${listId}-${found[chosen].id}` : undefined}
          aria-label="Search pages and actions"
          placeholder="Name, ID or action"
          value={query}
          onChange={(event) => {
            onQuery(event.target.value)
            setAt(0)
          }}
          onKeyDown={onKey}
          onFocus={({ currentTarget: field }) => {
            if (isReady.current) return
            isReady.current = true
            onReady()
            field.setSelectionRange(field.value.length, field.value.length)
          }}
          className="h-12 w-full bg-transparent text-md outline-none placeholder:text-ink-3"
        />
      </div>
      <div
        ref={list}
        role="listbox"
        id={listId}
        aria-label="Results"
        className="min-h-0 overflow-y-auto overscroll-contain p-1.5"
      >
        {sections.map((section) => (
          // biome-ignore lint/a11y/useSemanticElements: a listbox group, not a form field
          <div key={section.title ?? ''} role="group" aria-label={section.title ?? 'Best matches'}>
            {section.title && (
              <p className="px-2.5 pt-2 pb-1 text-2xs text-ink-3" aria-hidden>
                {section.title}
              </p>
            )}
            {section.entries.map((entry) => (
              <Option
                key={entry.id}
                id={`${listId}-${entry.id}`}
                entry={entry}
                chosen={entry === found[chosen]}
                titled={section.title !== null}
                onPoint={() => setAt(found.indexOf(entry))}
                onTake={() => take(entry)}
              />
            ))}
          </div>
        ))}
        {found.length === 0 && (
          <p className="px-2.5 py-6 text-center text-ink-2">
            No results for “{query}”. Example IDs: batch b12, sample b12-3.
          </p>
        )}
      </div>
      <footer
        aria-hidden
        className="flex h-9 shrink-0 items-center gap-4 border-t bg-sunken px-4 text-2xs text-ink-3 max-sm:hidden"
      >
        <span className="flex items-center gap-1.5">
          <KeyCap name="↑" />
          <KeyCap name="↓" /> Select
        </span>
        <span className="flex items-center gap-1.5">
          <KeyCap name="↵" /> Open
        </span>
        <span className="flex items-center gap-1.5">
          <KeyCap name="Esc" /> Close
        </span>
      </footer>
    </>
  )
}

function Option({
  id,
  entry,
  chosen,
  titled,
  onPoint,
  onTake,
}: {
  id: string
  entry: PaletteEntry
  chosen: boolean
  /** Whether the section has a title. The title names the kind of the entries, so the entries do not. */
  titled: boolean
  onPoint(): void
  onTake(): void
}) {
  const isName = entry.kind === 'page' || entry.kind === 'action'
  const Icon = PAGE_ICONS.get(entry.href ?? '') ?? ICONS[entry.kind]
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the input handles the keys and keeps the focus
    <div
      id={id}
      role="option"
      tabIndex={-1}
      aria-selected={chosen}
      onMouseMove={onPoint}
      onClick={onTake}
      className="flex h-9 cursor-pointer items-center gap-2.5 rounded-md px-2.5 aria-selected:bg-selected"
    >
      <Icon size={15} className="shrink-0 text-ink-3" aria-hidden />
      <span className={`min-w-0 shrink-0 truncate ${isName ? '' : 'max-w-64 font-mono text-xs'}`}>
        {entry.label}
      </span>
      <span className="ml-auto flex min-w-0 items-center gap-2 text-xs text-ink-3">
        {!(titled && isName) && <span className="truncate">{entry.about}</span>}
        {entry.keys && (
          <span className="max-sm:hidden">
            <KeyCaps keys={entry.keys} />
          </span>
        )}
        {chosen && !entry.keys && <CornerDownLeft size={13} className="shrink-0" aria-hidden />}
      </span>
    </div>
  )
}

function useEntries(): PaletteEntry[] {
  const trpc = useTRPC()
  const batches = useQuery(trpc.batches.list.queryOptions({ limit: 30 }))
  const runs = useQuery(trpc.runs.list.queryOptions())
  const servers = useQuery(trpc.servers.list.queryOptions())
  const bindings = usePaletteBindings()
  // The actions are fixed when the palette opens, so that they do not change while the user types.
  const [actions] = useState(() =>
    bindings.map(
      (binding): PaletteEntry => ({
        id: `do-${binding.label.replaceAll(/\W+/g, '-')}`,
        kind: 'action',
        label: binding.label,
        about: binding.palette === 'page' ? THIS_PAGE : '',
        href: null,
        run: binding.run,
        ...(binding.key === null ? {} : { keys: binding.key }),
      }),
    ),
  )
  return useMemo(() => {
    const pages = NAVIGATION.flatMap((group) => group.pages).map(
      (page): PaletteEntry => ({
        id: `page${page.href}`,
        kind: 'page',
        label: page.label,
        about: 'Page',
        href: page.href,
        ...(page.key === undefined ? {} : { keys: `g ${page.key}` }),
      }),
    )
    return [
      ...actions,
      ...pages,
      ...(batches.data?.items ?? []).map(
        (batch): PaletteEntry => ({
          id: batch.batchId,
          kind: 'batch',
          label: batch.batchId,
          about: `${batch.run} · Step ${formatCount(batch.step)} · ${BATCH_LOOK[batch.status].text}`,
          href: `/batches/${batch.batchId}`,
        }),
      ),
      ...(runs.data ?? []).flatMap((run): PaletteEntry[] => [
        {
          id: `run-${run.name}`,
          kind: 'run',
          label: run.name,
          about: `Run · ${plural(run.batches, 'batch', 'batches')}`,
          href: `/runs/${encodeURIComponent(run.name)}`,
        },
        {
          id: `prompts-${run.name}`,
          kind: 'run',
          label: run.name,
          about: 'Prompts over steps',
          href: promptsHref(run.name),
        },
      ]),
      ...(servers.data ?? []).map(
        (server): PaletteEntry => ({
          id: server.id,
          kind: 'server',
          label: server.name,
          about: `Server · ${stateLook(server.state).text} · ${server.model}`,
          href: serverHref(server),
        }),
      ),
    ]
  }, [actions, batches.data, runs.data, servers.data])
}
