'use client'

import { useMutation, useQuery } from '@tanstack/react-query'
import { Pencil, Tag, Trash2 } from 'lucide-react'
import { type FormEvent, useId, useRef, useState } from 'react'
import { type AnnotationDto, MAX_LISTED_ANNOTATIONS } from '../../server/contract/annotations.ts'
import { failureText } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { type Refusal, useMay } from '../session/use-may.ts'
import { useSession } from '../session/use-session.ts'
import { useKeys } from '../shell/keys.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button, IconButton } from '../ui/button.tsx'
import { TextArea } from '../ui/field.tsx'
import { LABEL_CHIP } from './sample-columns.tsx'
import { useAnnotationRefresh } from './use-annotation-refresh.ts'

export function AnnotationsPart({
  sample,
}: {
  sample: { id: string; annotations: AnnotationDto[] }
}) {
  const trpc = useTRPC()
  const refresh = useAnnotationRefresh()
  const refused = useMay('trainer')
  const session = useSession()
  const refusedOn = (one: AnnotationDto) => {
    const me = session.data
    if (refused !== null || me === undefined || me.role === 'admin' || me.name === one.author)
      return refused
    return `Only ${one.author} or an admin can edit this annotation.`
  }
  const [error, setError] = useState<string>()
  const [editing, setEditing] = useState<string | null>(null)
  const [label, setLabel] = useState('')
  const [note, setNote] = useState('')
  const [noting, setNoting] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  const settled = {
    onError(failure: unknown) {
      setError(failureText(failure))
    },
    async onSuccess() {
      setError(undefined)
      await refresh()
    },
  }
  const add = useMutation(trpc.annotations.add.mutationOptions(settled))
  const update = useMutation(trpc.annotations.update.mutationOptions(settled))
  const remove = useMutation(trpc.annotations.remove.mutationOptions(settled))
  useKeys([
    {
      key: 'a',
      label: 'Annotate open sample',
      group: 'Samples',
      run: () => field.current?.focus(),
    },
  ])
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (refused !== null || label.trim() === '') return
    add.mutate(
      { samples: [sample.id], ...asWritten(label, note) },
      {
        onSuccess: () => {
          setLabel('')
          setNote('')
          setNoting(false)
        },
      },
    )
  }
  return (
    <section aria-label="Annotations" className="border-b px-5 py-3.5">
      <h3 className="mb-1.5 text-xs font-medium text-ink-3">Annotations</h3>
      {sample.annotations.length === MAX_LISTED_ANNOTATIONS && (
        <p className="mb-1.5 text-xs text-ink-3">Newest {MAX_LISTED_ANNOTATIONS}</p>
      )}
      {sample.annotations.length > 0 && (
        <ul className="mb-2 space-y-1.5">
          {sample.annotations.map((one) =>
            editing === one.id ? (
              <li key={one.id}>
                <EditForm
                  annotation={one}
                  busy={update.isPending}
                  onClose={() => setEditing(null)}
                  onSave={(change) =>
                    update.mutate({ id: one.id, ...change }, { onSuccess: () => setEditing(null) })
                  }
                />
              </li>
            ) : (
              <li key={one.id} className="flex items-start gap-2" data-annotation={one.id}>
                <span className={`${LABEL_CHIP} mt-px shrink-0`}>{one.label}</span>
                <span className="min-w-0 flex-1 break-words whitespace-pre-wrap">
                  {one.note}
                  <span className="num ml-2 text-xs whitespace-nowrap text-ink-3">
                    {one.author}, <Ago at={one.createdAt} />
                    {one.updatedAt !== null && ', edited'}
                  </span>
                </span>
                <span className="-my-0.5 flex shrink-0">
                  <IconButton
                    label={`Edit “${one.label}”`}
                    refused={refusedOn(one)}
                    onClick={() => setEditing(one.id)}
                  >
                    <Pencil size={13} aria-hidden />
                  </IconButton>
                  <IconButton
                    label={`Delete “${one.label}”`}
                    refused={refusedOn(one)}
                    disabled={remove.isPending}
                    onClick={() => remove.mutate({ id: one.id })}
                  >
                    <Trash2 size={13} aria-hidden />
                  </IconButton>
                </span>
              </li>
            ),
          )}
        </ul>
      )}
      <form onSubmit={submit} className="flex flex-wrap items-center gap-2">
        <LabelInput value={label} onChange={setLabel} fieldRef={field} refused={refused} />
        {!noting && (
          <Button small variant="quiet" refused={refused} onClick={() => setNoting(true)}>
            Add note
          </Button>
        )}
        <Button
          small
          type="submit"
          refused={refused}
          disabled={label.trim() === ''}
          busy={add.isPending}
          className="ml-auto"
        >
          Annotate
        </Button>
        {noting && (
          <div className="w-full">
            <NoteInput value={note} onChange={setNote} />
          </div>
        )}
      </form>
      {error !== undefined && (
        <p role="alert" className="mt-1.5 text-xs text-bad">
          {error}
        </p>
      )}
    </section>
  )
}

export function LabelInput({
  value,
  onChange,
  fieldRef,
  refused = null,
}: {
  value: string
  onChange(value: string): void
  fieldRef?: React.RefObject<HTMLInputElement | null>
  /** The reason why the user may not annotate; null if they may. */
  refused?: Refusal
}) {
  const trpc = useTRPC()
  const labels = useQuery(trpc.annotations.labels.queryOptions({}))
  const id = useId()
  return (
    <span className="relative">
      <Tag
        size={13}
        aria-hidden
        className="pointer-events-none absolute top-1/2 left-2 -translate-y-1/2 text-ink-3"
      />
      <input
        ref={fieldRef}
        aria-label="Label"
        placeholder="Label"
        list={id}
        maxLength={64}
        autoComplete="off"
        disabled={refused !== null}
        title={refused ?? undefined}
        value={value}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') event.currentTarget.blur()
        }}
        className="h-7 w-44 rounded-md border border-line-strong bg-surface pr-2 pl-7 text-xs placeholder:text-ink-3 disabled:opacity-50"
      />
      <datalist id={id}>
        {labels.data?.map(({ label }) => (
          <option key={label} value={label} />
        ))}
      </datalist>
    </span>
  )
}

export function NoteInput({
  value,
  onChange,
  rows = 2,
}: {
  value: string
  onChange(value: string): void
  rows?: number
}) {
  return (
    <TextArea
      label="Note"
      rows={rows}
      maxLength={2_000}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  )
}

export function asWritten(label: string, note: string): { label: string; note: string | null } {
  return { label: label.trim(), note: note.trim() || null }
}

function EditForm({
  annotation,
  busy,
  onSave,
  onClose,
}: {
  annotation: AnnotationDto
  busy: boolean
  onSave(change: { label: string; note: string | null }): void
  onClose(): void
}) {
  const [label, setLabel] = useState(annotation.label)
  const [note, setNote] = useState(annotation.note ?? '')
  return (
    <form
      className="space-y-2 rounded-md border p-2"
      onSubmit={(event) => {
        event.preventDefault()
        if (label.trim() !== '') onSave(asWritten(label, note))
      }}
    >
      <LabelInput value={label} onChange={setLabel} />
      <NoteInput value={note} onChange={setNote} />
      <span className="flex justify-end gap-2">
        <Button small onClick={onClose}>
          Cancel
        </Button>
        <Button small variant="primary" type="submit" busy={busy} disabled={label.trim() === ''}>
          Save
        </Button>
      </span>
    </form>
  )
}
