'use client'

import { useQuery } from '@tanstack/react-query'
import {
  Boxes,
  Layers,
  ListTree,
  type LucideIcon,
  PanelsTopLeft,
  Search,
  Server,
} from 'lucide-react'
import { useRouter } from 'next/navigation'
import { type KeyboardEvent, useId, useMemo, useState } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { serverHref } from '../servers/server-words.ts'
import { Window } from '../ui/dialog.tsx'
import { stateLook } from '../ui/status.tsx'
import { NAVIGATION } from './pages.ts'
import { matchEntries, type PaletteEntry } from './palette.prepare.ts'

const ICONS: Record<PaletteEntry['kind'], LucideIcon> = {
  page: PanelsTopLeft,
  batch: Layers,
  run: ListTree,
  server: Server,
  sample: Boxes,
}

/** Goes anywhere by typing: pages, batches, runs, servers. */
export function Palette({ open, onClose }: { open: boolean; onClose(): void }) {
  return (
    <Window open={open} onClose={onClose} title="Go to anything" hideTitle>
      {open && <PaletteBody onClose={onClose} />}
    </Window>
  )
}

function PaletteBody({ onClose }: { onClose(): void }) {
  const router = useRouter()
  const listId = useId()
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const entries = useEntries()
  const found = useMemo(() => matchEntries(entries, typed), [entries, typed])
  const chosen = Math.min(at, Math.max(0, found.length - 1))
  const go = (entry: PaletteEntry | undefined) => {
    if (entry === undefined) return
    onClose()
    router.push(entry.href)
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter') go(found[chosen])
    else if (event.key === 'ArrowDown') setAt(Math.min(chosen + 1, found.length - 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(chosen - 1, 0))
    else return
    event.preventDefault()
  }
  return (
    <>
      <div className="flex items-center gap-2.5 border-b px-4">
        <Search size={15} className="text-ink-3" aria-hidden />
        <input
          role="combobox"
          aria-expanded
          aria-controls={listId}
          aria-activedescendant={found[chosen] ? `${listId}-${found[chosen].id}` : undefined}
          aria-label="Go to a page, batch, run or server"
          placeholder="A page, b12, a run, a server"
          value={typed}
          onChange={(event) => {
            setTyped(event.target.value)
            setAt(0)
          }}
          onKeyDown={onKey}
          className="h-12 w-full bg-transparent text-md outline-none placeholder:text-ink-3"
        />
      </div>
      <div role="listbox" id={listId} aria-label="Found" className="overflow-y-auto p-1.5">
        {found.map((entry, i) => {
          const Icon = ICONS[entry.kind]
          return (
            <div
              key={entry.id}
              id={`${listId}-${entry.id}`}
              role="option"
              tabIndex={-1}
              aria-selected={i === chosen}
              onMouseMove={() => setAt(i)}
              onClick={() => go(entry)}
              onKeyDown={onKey}
              className="flex h-9 cursor-pointer items-center gap-2.5 rounded-md px-2.5 aria-selected:bg-hover"
            >
              <Icon size={15} className="text-ink-3" aria-hidden />
              <span className={entry.kind === 'page' ? '' : 'font-mono text-xs'}>
                {entry.label}
              </span>
              <span className="ml-auto truncate text-xs text-ink-3">{entry.about}</span>
            </div>
          )
        })}
        {found.length === 0 && (
          <p className="px-2.5 py-6 text-center text-ink-2">
            Nothing is called “{typed}”. A batch is b12, a sample b12-3.
          </p>
        )}
      </div>
    </>
  )
}

function useEntries(): PaletteEntry[] {
  const trpc = useTRPC()
  const batches = useQuery(trpc.batches.list.queryOptions({ limit: 30 }))
  const runs = useQuery(trpc.runs.list.queryOptions())
  const servers = useQuery(trpc.servers.list.queryOptions())
  return useMemo(() => {
    const pages = NAVIGATION.flatMap((group) => group.pages).map(
      (page): PaletteEntry => ({
        id: `page${page.href}`,
        kind: 'page',
        label: page.label,
        about: 'page',
        href: page.href,
      }),
    )
    return [
      ...pages,
      ...(batches.data?.items ?? []).map(
        (batch): PaletteEntry => ({
          id: batch.batchId,
          kind: 'batch',
          label: batch.batchId,
          about: `${batch.run} · step ${batch.step} · ${batch.status}`,
          href: `/batches/${batch.batchId}`,
        }),
      ),
      ...(runs.data ?? []).map(
        (run): PaletteEntry => ({
          id: `run-${run.name}`,
          kind: 'run',
          label: run.name,
          about: `run · ${plural(run.batches, 'batch', 'batches')}`,
          href: `/batches?run=${encodeURIComponent(run.name)}`,
        }),
      ),
      ...(servers.data ?? []).map(
        (server): PaletteEntry => ({
          id: server.id,
          kind: 'server',
          label: server.name,
          about: `server · ${stateLook(server.state).text} · ${server.model}`,
          href: serverHref(server),
        }),
      ),
    ]
  }, [batches.data, runs.data, servers.data])
}
