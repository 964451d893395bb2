'use client'

import { useMutation } from '@tanstack/react-query'
import { useRouter } from 'next/navigation'
import { useMemo, useState } from 'react'
import type { BatchViewDto } from '../../server/contract/pages.ts'
import type { ResolvedReward } from '../../server/contract/resolved-reward.ts'
import { failureText } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { Sheet } from '../ui/dialog.tsx'
import { Select } from '../ui/select.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { RewardField, useRewardChoices } from './reward-choices.tsx'
import { readReward, requestReward, rewardText } from './reward-text.prepare.ts'

export function RescoreSheet({
  batch,
  open,
  onClose,
  onDone,
}: {
  batch: BatchViewDto
  open: boolean
  onClose(): void
  /** Called with the ID of the new batch; by default its page opens. */
  onDone?: (batchId: string) => void
}) {
  return (
    <Sheet open={open} onClose={onClose} title={`Rescore ${batch.batchId}`}>
      {open && <RescoreForm batch={batch} onClose={onClose} {...(onDone ? { onDone } : {})} />}
    </Sheet>
  )
}

function RescoreForm({
  batch,
  onClose,
  onDone,
}: {
  batch: BatchViewDto
  onClose(): void
  onDone?: (batchId: string) => void
}) {
  const trpc = useTRPC()
  const router = useRouter()
  const choices = useRewardChoices()
  const before = useMemo(
    () => rewardText(requestReward(batch.reward as unknown as ResolvedReward)),
    [batch.reward],
  )
  const [text, setText] = useState(before)
  const [error, setError] = useState<string>()
  // Repeated submits of an unchanged form share this idempotency key, so they create one batch.
  const [key, setKey] = useState(() => crypto.randomUUID())
  const rescore = useMutation(
    trpc.batches.rescore.mutationOptions({
      onError: (failure) => {
        setError(failureText(failure))
      },
      onSuccess: ({ batchId }) => {
        onClose()
        if (onDone) onDone(batchId)
        else router.push(`/batches/${batchId}`)
      },
    }),
  )
  const change = (next: string) => {
    setText(next)
    setError(undefined)
    setKey(crypto.randomUUID())
  }
  const submit = () => {
    const read = readReward(text)
    if ('error' in read) {
      setError(read.error)
      return
    }
    setError(undefined)
    rescore.mutate({
      batchId: batch.batchId,
      reward: read.reward as never,
      idempotencyKey: key,
    })
  }
  return (
    <SheetForm onSubmit={submit} onClose={onClose} action="Rescore" busy={rescore.isPending}>
      <p className="text-ink-2">
        Creates a new batch with the same {plural(batch.samples, 'rollout')}, linked to this batch.
        This batch does not change.
      </p>
      <Select
        label="Reward"
        searchable
        value={text}
        options={[
          { value: before, label: `${batch.rewardName} (unchanged)` },
          ...choices.filter(({ value }) => value !== before),
        ]}
        placeholder="Custom JSON"
        onChange={change}
      />
      <RewardField rows={14} value={text} error={error} onChange={change} />
    </SheetForm>
  )
}
