'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { ApiKeyDto } from '../../server/contract/access.ts'
import { useTRPC } from '../api/trpc.ts'
import { Sheet } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Select } from '../ui/select.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { NewKey } from './create-key-sheet.tsx'

const OVERLAPS: readonly [hours: number, words: string][] = [
  [0, 'Revoke now, end sessions'],
  [1, 'Keep for an hour'],
  [24, 'Keep for a day'],
  [168, 'Keep for 7 days'],
  [720, 'Keep for 30 days'],
]

export function RotateKeySheet({ of, onClose }: { of: ApiKeyDto; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [hours, setHours] = useState(24)
  const rotate = useMutation(
    trpc.keys.rotate.mutationOptions({
      // The response contains the key, so it is dropped from memory when the sheet closes.
      gcTime: 0,
      onSuccess: () => void queryClient.invalidateQueries(trpc.keys.pathFilter()),
    }),
  )
  // The new key is shown only once, so the sheet stays open until the key has arrived. `rotate.isPending` changes with
  // the next render, which may come after an Escape.
  const close = () => {
    if (queryClient.isMutating({ mutationKey: trpc.keys.rotate.mutationKey() }) === 0) onClose()
  }
  return (
    <Sheet open onClose={close} title={rotate.data ? `Key ${of.name}` : `Rotate ${of.name}`}>
      {rotate.data ? (
        <NewKey made={rotate.data} onDone={onClose} />
      ) : (
        <SheetForm
          action="Rotate key"
          busy={rotate.isPending}
          onSubmit={() => rotate.mutate({ id: of.id, overlapHours: hours })}
          onClose={close}
        >
          <p className="text-ink-2">
            A new key with the same name, role, limits and expiry replaces {of.prefix}…. Switch the
            clients to it while both keys are valid.
          </p>
          <Select
            label="Previous key"
            value={hours}
            options={OVERLAPS.map(([value, label]) => ({ value, label }))}
            onChange={setHours}
          />
          {rotate.error && <FailureView compact error={rotate.error} />}
        </SheetForm>
      )}
    </Sheet>
  )
}
