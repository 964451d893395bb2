'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Diamond, Plus } from 'lucide-react'
import { useState } from 'react'
import type { RunMarkDto } from '../../server/wire/marks.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { useKeys } from '../shell/keys.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { Confirm, Sheet } from '../ui/dialog.tsx'
import { FieldAbout, TextArea, TextField } from '../ui/field.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'

/** Chips that stand in one row before the rest is asked for. */
const AT_FIRST = 8

/** What changed in a run, and where: the marks that its charts draw, made and changed here. */
export function RunMarks({
  run,
  marks,
  lastStep,
  open,
  onOpen,
}: {
  run: string
  marks: readonly RunMarkDto[]
  /** Where a new mark stands to begin with. */
  lastStep: number
  /** `new`, the id of a mark, or null: the form is closed. */
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
  const shown = all ? marks : marks.slice(-AT_FIRST)
  const edited = marks.find(({ id }) => id !== null && id === open) ?? null
  return (
    <>
      <ul aria-label="Marks" className="flex flex-wrap items-center gap-2 px-5 pb-3">
        {marks.length > shown.length && (
          <li>
            <Button small variant="quiet" onClick={() => setAll(true)}>
              {formatCount(marks.length - shown.length)} earlier marks
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
                title={mark.note || 'Change this mark'}
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
        title={edited === null ? 'Mark a step' : 'Change the mark'}
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
      <span className="num shrink-0 text-ink-3">step {formatCount(mark.step)}</span>
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
  const [asked, setAsked] = useState(false)
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
      return setError('Give the step as a whole number of 0 or more.')
    if (label.trim() === '') return setError('Say in a few words what changed.')
    setError(null)
    if (mark?.id) update.mutate({ id: mark.id, step: at, label, note })
    else create.mutate({ run, step: at, label, note })
  }
  return (
    <>
      <SheetForm
        action={mark === null ? 'Mark it' : 'Save'}
        busy={busy}
        refused={refused}
        beside={
          mark?.id && (
            <Button
              variant="quiet"
              className="mr-auto text-bad"
              refused={refused}
              onClick={() => setAsked(true)}
            >
              Remove
            </Button>
          )
        }
        onSubmit={submit}
        onClose={onClose}
      >
        <p className="text-ink-2">
          Drawn as a line on every chart over the steps of this run, for all who look at it.
        </p>
        <TextField
          label="What changed"
          placeholder="RM changed here"
          autoFocus
          maxLength={60}
          value={label}
          onChange={(event) => setLabel(event.target.value)}
        />
        <TextField
          label="At step"
          inputMode="numeric"
          hint="The first step it holds for."
          value={step}
          onChange={(event) => setStep(event.target.value)}
        />
        <TextArea
          label="Note"
          note="why, a link, a commit"
          rows={4}
          maxLength={2_000}
          value={note}
          onChange={(event) => setNote(event.target.value)}
        />
        {mark?.author && (
          <p className="text-xs text-ink-3">
            Made by {mark.author}, <Ago at={mark.at} />
          </p>
        )}
        <FieldAbout error={error} />
      </SheetForm>
      <Confirm
        open={asked}
        title={`Remove “${mark?.label}”?`}
        action="Remove it"
        busy={remove.isPending}
        onConfirm={() => mark?.id && remove.mutate({ id: mark.id })}
        onClose={() => setAsked(false)}
      >
        Its line goes from the charts of everybody.
      </Confirm>
    </>
  )
}
