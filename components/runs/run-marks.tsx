'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Diamond, Plus } from 'lucide-react'
import { useState } from 'react'
import type { RunMarkDto } from '../../server/contract/marks.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { useKeys } from '../shell/keys.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { Confirm, Sheet } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { FieldAbout, TextArea, TextField } from '../ui/field.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'

const INITIAL_CHIPS = 8

export function RunMarks({
  run,
  marks,
  lastStep,
  open,
  onOpen,
}: {
  run: string
  marks: readonly RunMarkDto[]
  /** The default step of a new mark. */
  lastStep: number
  /** The mark in the form: `new`, an ID, or null if the form is closed. */
  open: string | null
  onOpen(open: string | null): void
}) {
  const [all, setAll] = useState(false)
  const refused = useMay('trainer')
  useKeys(
    refused === null
      ? [{ key: 'm', label: 'Mark a step', group: 'Run', run: () => onOpen('new') }]
      : [],
  )
  const shown = all ? marks : marks.slice(-INITIAL_CHIPS)
  const edited = marks.find(({ id }) => id !== null && id === open) ?? null
  return (
    <>
      <ul aria-label="Marked steps" className="flex flex-wrap items-center gap-2 px-5 pb-3">
        {marks.length > shown.length && (
          <li>
            <Button small variant="quiet" onClick={() => setAll(true)}>
              Show {formatCount(marks.length - shown.length)} earlier marks
            </Button>
          </li>
        )}
        {shown.map((mark) => (
          <li key={mark.id ?? `${mark.step} ${mark.label}`} className="max-w-full">
            {mark.id === null ? (
              <span
                className="inline-flex h-7 max-w-full items-center gap-1.5 rounded-md bg-sunken px-2 text-xs text-ink-2"
                title={mark.note}
              >
                <MarkWords mark={mark} />
              </span>
            ) : (
              <button
                type="button"
                onClick={() => onOpen(mark.id)}
                title={mark.note || 'Edit mark'}
                className={`${buttonClass('plain', true)} max-w-full min-w-0`}
              >
                <MarkWords mark={mark} />
              </button>
            )}
          </li>
        ))}
        <li>
          <Button small variant="quiet" refused={refused} onClick={() => onOpen('new')}>
            <Plus size={13} aria-hidden />
            Mark a step
            <kbd aria-hidden className="font-mono text-2xs text-ink-3">
              M
            </kbd>
          </Button>
        </li>
      </ul>
      <Sheet
        open={open === 'new' || edited !== null}
        onClose={() => onOpen(null)}
        title={edited === null ? 'Mark a step' : 'Edit mark'}
      >
        <MarkForm
          key={edited?.id ?? 'new'}
          run={run}
          mark={edited}
          lastStep={lastStep}
          onClose={() => onOpen(null)}
        />
      </Sheet>
    </>
  )
}

function MarkWords({ mark }: { mark: RunMarkDto }) {
  return (
    <>
      <Diamond size={9} fill="currentColor" aria-hidden className="shrink-0" />
      <span className="num shrink-0 text-ink-3">Step {formatCount(mark.step)}</span>
      <span className="truncate">{mark.label}</span>
    </>
  )
}

function MarkForm({
  run,
  mark,
  lastStep,
  onClose,
}: {
  run: string
  mark: RunMarkDto | null
  lastStep: number
  onClose(): void
}) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('trainer')
  const [step, setStep] = useState(String(mark?.step ?? lastStep))
  const [label, setLabel] = useState(mark?.label ?? '')
  const [note, setNote] = useState(mark?.note ?? '')
  const [error, setError] = useState<string | null>(null)
  const [isConfirming, setIsConfirming] = useState(false)
  const outcome = {
    onError: (thrown: unknown) => setError(describeFailure(thrown).message),
    onSuccess: () => {
      void queryClient.invalidateQueries(trpc.marks.pathFilter())
      onClose()
    },
  }
  const create = useMutation(trpc.marks.create.mutationOptions(outcome))
  const update = useMutation(trpc.marks.update.mutationOptions(outcome))
  const remove = useMutation(trpc.marks.remove.mutationOptions(outcome))
  const busy = create.isPending || update.isPending
  const submit = () => {
    const at = Number(step)
    if (step.trim() === '' || !Number.isInteger(at) || at < 0)
      return setError('Enter the step as a whole number, 0 or more.')
    if (label.trim() === '') return setError('Describe the change in a few words.')
    setError(null)
    if (mark?.id) update.mutate({ id: mark.id, step: at, label, note })
    else create.mutate({ run, step: at, label, note })
  }
  return (
    <>
      <SheetForm
        action={mark === null ? 'Add mark' : 'Save'}
        busy={busy}
        refused={refused}
        beside={
          mark?.id && (
            <Button
              variant="quiet"
              className="mr-auto text-bad"
              refused={refused}
              onClick={() => setIsConfirming(true)}
            >
              Remove
            </Button>
          )
        }
        onSubmit={submit}
        onClose={onClose}
      >
        <p className="text-ink-2">
          The mark is a line on every step chart of this run, visible to all users.
        </p>
        <TextField
          label="Label"
          placeholder="RM changed here"
          autoFocus
          maxLength={60}
          value={label}
          onChange={(event) => setLabel(event.target.value)}
        />
        <TextField
          label="Step"
          inputMode="numeric"
          hint="The first affected step."
          value={step}
          onChange={(event) => setStep(event.target.value)}
        />
        <TextArea
          label="Note"
          note="reason, link or commit"
          rows={4}
          maxLength={2_000}
          value={note}
          onChange={(event) => setNote(event.target.value)}
        />
        {mark?.author && (
          <p className="text-xs text-ink-3">
            Created by {mark.author}, <Ago at={mark.at} />
          </p>
        )}
        <FieldAbout error={error} />
      </SheetForm>
      <Confirm
        open={isConfirming}
        title={`Remove “${mark?.label}”?`}
        action="Remove mark"
        busy={remove.isPending}
        error={remove.error && <FailureView compact error={remove.error} />}
        onConfirm={() => mark?.id && remove.mutate({ id: mark.id })}
        onClose={() => setIsConfirming(false)}
      >
        The mark is removed from all charts, for all users.
      </Confirm>
    </>
  )
}
