'use client'

import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import {
  type AddedAnnotationsDto,
  MAX_ANNOTATED_SAMPLES,
} from '../../server/contract/annotations.ts'
import type { SampleFilter } from '../../server/contract/sample-filter.ts'
import { failureText } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { Sheet } from '../ui/dialog.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { asWritten, LabelInput, NoteInput } from './annotations-part.tsx'
import { MatchCount } from './match-count.tsx'
import type { Target } from './selection.ts'
import { useAnnotationRefresh } from './use-annotation-refresh.ts'

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
    <Sheet open={open} onClose={onClose} title="Annotate samples">
      {open && <AnnotateForm target={target} onClose={onClose} />}
    </Sheet>
  )
}

function AnnotateForm({ target, onClose }: { target: Target; onClose(): void }) {
  const trpc = useTRPC()
  const refresh = useAnnotationRefresh()
  const [label, setLabel] = useState('')
  const [note, setNote] = useState('')
  const [done, setDone] = useState<AddedAnnotationsDto>()
  const [error, setError] = useState<string>()
  const add = useMutation(
    trpc.annotations.add.mutationOptions({
      onError(failure) {
        setError(failureText(failure))
      },
      async onSuccess(answer) {
        setError(undefined)
        setDone(answer)
        await refresh()
      },
    }),
  )
  const submit = () => {
    if (label.trim() === '') return
    add.mutate({
      ...('ids' in target ? { samples: [...target.ids] } : { filter: target.filter }),
      ...asWritten(label, note),
    })
  }
  return (
    <SheetForm
      onSubmit={submit}
      onClose={onClose}
      action="Annotate"
      busy={add.isPending}
      disabled={label.trim() === ''}
    >
      {'ids' in target ? (
        <Scope>{`${plural(target.ids.length, 'sample')} will be annotated.`}</Scope>
      ) : (
        <MatchScope filter={target.filter} />
      )}
      <LabelInput value={label} onChange={setLabel} />
      <NoteInput value={note} onChange={setNote} rows={3} />
      {done !== undefined && (
        <p role="status" className="num text-ok" data-annotated={done.added}>
          {plural(done.added, 'sample')} annotated
          {done.alreadyAnnotated > 0 && `, ${formatCount(done.alreadyAnnotated)} already annotated`}
          {done.missing > 0 && `, ${formatCount(done.missing)} not found`}
          {done.hasMore && '. More samples match. Narrow the filter to annotate them'}.
        </p>
      )}
      {error !== undefined && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
    </SheetForm>
  )
}

function Scope({ children }: { children: string }) {
  return (
    <p className="num text-ink-2">
      {children} Samples that already have this label and note from you are skipped.
    </p>
  )
}

function MatchScope({ filter }: { filter: SampleFilter }) {
  const trpc = useTRPC()
  const count = useQuery(trpc.samples.count.queryOptions(filter))
  return (
    <MatchCount query={count}>
      {({ exact, samples }) => (
        <Scope>
          {exact && samples <= MAX_ANNOTATED_SAMPLES
            ? `All ${plural(samples, 'matching sample')} will be annotated.`
            : `${formatCount(samples)}${exact ? '' : '+'} samples match. At most the newest ${formatCount(MAX_ANNOTATED_SAMPLES)} will be annotated.`}
        </Scope>
      )}
    </MatchCount>
  )
}
