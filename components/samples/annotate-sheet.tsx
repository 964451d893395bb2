'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { type AddedAnnotationsDto, MOST_ANNOTATED } from '../../server/wire/annotations.ts'
import type { SampleFilter } from '../../server/wire/sample-filter.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { Button } from '../ui/button.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { TextArea } from '../ui/field.tsx'
import { LabelInput } from './annotations-part.tsx'
import type { Target } from './selection.ts'

/** The same label and note on many samples. */
export function AnnotateSheet({
  target,
  open,
  onClose,
}: {
  target: Target
  open: boolean
  onClose(): void
}) {
  return (
    <Sheet open={open} onClose={onClose} title="Annotate the samples">
      {open && <AnnotateForm target={target} onClose={onClose} />}
    </Sheet>
  )
}

function AnnotateForm({ target, onClose }: { target: Target; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [label, setLabel] = useState('')
  const [note, setNote] = useState('')
  const [done, setDone] = useState<AddedAnnotationsDto>()
  const [error, setError] = useState<string>()
  const add = useMutation(
    trpc.annotations.add.mutationOptions({
      onError(failure) {
        const { message, hint } = describeFailure(failure)
        setError(`${message} ${hint}`)
      },
      async onSuccess(answer) {
        setError(undefined)
        setDone(answer)
        await Promise.all([
          queryClient.invalidateQueries({ queryKey: trpc.samples.list.queryKey() }),
          queryClient.invalidateQueries({ queryKey: trpc.samples.get.queryKey() }),
          queryClient.invalidateQueries({ queryKey: trpc.annotations.labels.queryKey() }),
        ])
      },
    }),
  )
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (label.trim() === '') return
    add.mutate({
      ...('ids' in target ? { samples: [...target.ids] } : { filter: target.filter }),
      label: label.trim(),
      note: note.trim() || null,
    })
  }
  return (
    <form onSubmit={submit} className="flex min-h-full flex-col">
      <div className="flex-1 space-y-4 px-5 py-4">
        <p className="num text-ink-2">
          {'ids' in target ? (
            `${plural(target.ids.length, 'sample')} will have the label.`
          ) : (
            <FilterWords filter={target.filter} />
          )}{' '}
          One that has it from you already, with the same note, gets no second.
        </p>
        <LabelInput value={label} onChange={setLabel} />
        <TextArea
          label="Note"
          rows={3}
          maxLength={2_000}
          value={note}
          onChange={(event) => setNote(event.target.value)}
        />
        {done !== undefined && (
          <p role="status" className="num text-ok" data-annotated={done.added}>
            {plural(done.added, 'sample')} annotated
            {done.already > 0 && `, ${formatCount(done.already)} had it already`}
            {done.missing > 0 && `, ${formatCount(done.missing)} are no longer there`}
            {done.more && '. More fit: narrow the filter to go on with those'}.
          </p>
        )}
        {error !== undefined && (
          <p role="alert" className="text-xs text-bad">
            {error}
          </p>
        )}
      </div>
      <footer className="sticky bottom-0 flex items-center justify-end gap-2 border-t bg-raised px-5 py-3">
        <Button onClick={onClose}>Close</Button>
        <Button type="submit" variant="primary" busy={add.isPending} disabled={label.trim() === ''}>
          Annotate
        </Button>
      </footer>
    </form>
  )
}

function FilterWords({ filter }: { filter: SampleFilter }) {
  const trpc = useTRPC()
  const { data } = useQuery(trpc.samples.count.queryOptions(filter))
  if (data === undefined) return 'Counting what fits…'
  if (data.exact && data.samples <= MOST_ANNOTATED) {
    return `All ${plural(data.samples, 'sample')} that fit the filters will have the label.`
  }
  return `${formatCount(data.samples)}${data.exact ? '' : ' and more'} samples fit: the newest ${formatCount(MOST_ANNOTATED)} will have the label.`
}
