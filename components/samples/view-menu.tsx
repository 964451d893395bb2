'use client'

import { Menu } from '@base-ui/react/menu'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Bookmark, Check, ChevronDown } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import type { SavedViewDto } from '../../server/contract/saved-views.ts'
import { failureText } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { useMay } from '../session/use-may.ts'
import { MENU_ITEM as ITEM, MENU_POPUP } from '../ui/action-menu.tsx'
import { Button } from '../ui/button.tsx'
import { useCopy } from '../ui/copy-text.tsx'
import { Confirm, Window } from '../ui/dialog.tsx'
import { TextField } from '../ui/field.tsx'
import { useErrorFocus } from '../ui/use-error-focus.ts'
import { changedState, type SampleView, sampleView, stateOf } from './sample-filters.ts'

export function ViewMenu({
  view,
  saved,
  onOpen,
}: {
  view: SampleView
  saved: SavedViewDto | undefined
  onOpen(view: SampleView): void
}) {
  const trpc = useTRPC()
  const refused = useMay('trainer')
  // As in every menu, unavailable actions stay visible with their reason.
  const write = { disabled: refused !== null, title: refused ?? undefined }
  const queryClient = useQueryClient()
  const views = useQuery(trpc.views.list.queryOptions({ page: 'samples' }))
  const [openDialog, setOpenDialog] = useState<'save' | 'rename' | 'delete' | null>(null)
  const { copied, copy } = useCopy()
  const state = stateOf(view).toString()
  const isChanged =
    saved !== undefined &&
    stateOf(sampleView.parse(new URLSearchParams(saved.state))).toString() !== state
  const refresh = () =>
    Promise.all([
      queryClient.invalidateQueries({ queryKey: trpc.views.list.queryKey() }),
      queryClient.invalidateQueries({ queryKey: trpc.views.get.queryKey() }),
    ])
  const [error, setError] = useState<string>()
  const failed = {
    onError(failure: unknown) {
      setError(failureText(failure))
    },
  }
  const save = useMutation(trpc.views.save.mutationOptions(failed))
  const update = useMutation(trpc.views.update.mutationOptions(failed))
  const remove = useMutation(trpc.views.remove.mutationOptions(failed))
  const close = () => {
    setOpenDialog(null)
    setError(undefined)
  }
  const open = (one: SavedViewDto) =>
    onOpen({ ...sampleView.parse(new URLSearchParams(one.state)), view: one.id, sample: null })
  return (
    <>
      <Menu.Root>
        <Menu.Trigger
          render={
            <Button small title="Saved views">
              <Bookmark size={13} aria-hidden />
              <span className="sr-only">Saved views</span>
              <span className="max-w-40 truncate">{saved?.name ?? 'Views'}</span>
              {isChanged && (
                <>
                  <span className="size-1.5 rounded-full bg-accent" aria-hidden />
                  <span className="sr-only">Modified</span>
                </>
              )}
              <ChevronDown size={13} className="text-ink-3" aria-hidden />
            </Button>
          }
        />
        <Menu.Portal>
          <Menu.Positioner align="start" sideOffset={4} className="z-50">
            <Menu.Popup className={`${MENU_POPUP} max-h-[70vh] max-w-80 overflow-y-auto`}>
              {(views.data ?? []).map((one) => (
                <Menu.Item key={one.id} className={ITEM} onClick={() => open(one)}>
                  <span className="flex size-4 items-center justify-center">
                    {one.id === view.view && <Check size={13} aria-hidden />}
                  </span>
                  <span className="truncate">{one.name}</span>
                  <span className="ml-auto pl-4 text-xs text-ink-3">{one.author}</span>
                </Menu.Item>
              ))}
              {views.data?.length === 0 && (
                <p className="max-w-56 px-2 py-1.5 text-xs text-ink-3">
                  No saved views yet. A view stores filters, sort and columns.
                </p>
              )}
              <Menu.Separator className="my-1 h-px bg-line" />
              {isChanged && (
                <Menu.Item
                  {...write}
                  className={ITEM}
                  onClick={() =>
                    update.mutate(
                      { id: saved.id, state: changedState(view, saved.state).toString() },
                      { onSuccess: () => void refresh() },
                    )
                  }
                >
                  Save changes
                </Menu.Item>
              )}
              {isChanged && (
                <Menu.Item className={ITEM} onClick={() => open(saved)}>
                  Discard changes
                </Menu.Item>
              )}
              <Menu.Item {...write} className={ITEM} onClick={() => setOpenDialog('save')}>
                Save as new view…
              </Menu.Item>
              {saved !== undefined && (
                <>
                  <Menu.Item
                    className={ITEM}
                    onClick={() => copy(`${location.origin}${location.pathname}?view=${saved.id}`)}
                  >
                    Copy view link
                  </Menu.Item>
                  <Menu.Item {...write} className={ITEM} onClick={() => setOpenDialog('rename')}>
                    Rename…
                  </Menu.Item>
                  <Menu.Item
                    {...write}
                    className={`${ITEM} text-bad`}
                    onClick={() => setOpenDialog('delete')}
                  >
                    Delete…
                  </Menu.Item>
                  <Menu.Separator className="my-1 h-px bg-line" />
                  <Menu.Item
                    className={ITEM}
                    onClick={() => onOpen(sampleView.parse(new URLSearchParams()))}
                  >
                    Close view
                  </Menu.Item>
                </>
              )}
            </Menu.Popup>
          </Menu.Positioner>
        </Menu.Portal>
      </Menu.Root>
      <span className="sr-only" aria-live="polite">
        {copied ? 'Link copied' : ''}
      </span>
      {openDialog === null && error !== undefined && (
        <span role="alert" className="text-xs text-bad">
          {error}
        </span>
      )}
      <NameWindow
        key={openDialog ?? 'closed'}
        open={openDialog === 'save' || openDialog === 'rename'}
        title={openDialog === 'rename' ? 'Rename view' : 'Save as new view'}
        name={openDialog === 'rename' ? (saved?.name ?? '') : ''}
        busy={save.isPending || update.isPending}
        error={error}
        onClose={close}
        onName={(name) => {
          setError(undefined)
          if (openDialog === 'rename' && saved !== undefined) {
            update.mutate(
              { id: saved.id, name },
              {
                onSuccess: () => {
                  close()
                  void refresh()
                },
              },
            )
            return
          }
          save.mutate(
            { page: 'samples', name, state },
            {
              onSuccess: (made) => {
                close()
                onOpen({ ...view, view: made.id })
                void refresh()
              },
            },
          )
        }}
      />
      <Confirm
        open={openDialog === 'delete'}
        title={`Delete “${saved?.name ?? ''}”?`}
        action="Delete view"
        busy={remove.isPending}
        error={
          error !== undefined && (
            <p role="alert" className="mt-2 text-xs text-bad">
              {error}
            </p>
          )
        }
        onClose={close}
        onConfirm={() => {
          if (saved === undefined) return
          remove.mutate(
            { id: saved.id },
            {
              onSuccess: () => {
                close()
                onOpen({ ...view, view: null })
                void refresh()
              },
            },
          )
        }}
      >
        Links to this view then open the unfiltered list. No samples are affected.
      </Confirm>
    </>
  )
}

function NameWindow({
  open,
  title,
  name: given,
  busy,
  error,
  onName,
  onClose,
}: {
  open: boolean
  title: string
  name: string
  busy: boolean
  error: string | undefined
  onName(name: string): void
  onClose(): void
}) {
  const [name, setName] = useState(given)
  const { place, submitted } = useErrorFocus<HTMLFormElement>(busy)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (name.trim() === '') return
    submitted()
    onName(name.trim())
  }
  return (
    <Window open={open} onClose={onClose} title={title}>
      <form ref={place} onSubmit={submit} className="space-y-4 px-5 py-4">
        <TextField
          label="Name"
          maxLength={80}
          autoFocus
          value={name}
          error={error}
          hint="Visible to all users of this page."
          onChange={(event) => setName(event.target.value)}
        />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" variant="primary" busy={busy} disabled={name.trim() === ''}>
            Save
          </Button>
        </div>
      </form>
    </Window>
  )
}
