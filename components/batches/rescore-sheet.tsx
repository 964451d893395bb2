'use client'

import { useMutation, useQuery } from '@tanstack/react-query'
import { useRouter } from 'next/navigation'
import { type FormEvent, useMemo, useState } from 'react'
import type { BatchViewDto } from '../../server/wire/pages.ts'
import type { ResolvedReward } from '../../server/wire/resolved-reward.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { Button } from '../ui/button.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { Select, TextArea } from '../ui/field.tsx'
import { askedReward, readReward, rewardText } from './reward-text.prepare.ts'

/** Scores the rollouts of a batch again, by the same reward or another, as a batch of their own. */
export function RescoreSheet({
  batch,
  open,
  onClose,
  onDone,
}: {
  batch: BatchViewDto
  open: boolean
  onClose(): void
  /** What is done with the new batch; default: its page is opened. */
  onDone?: (batchId: string) => void
}) {
  return (
    <Sheet open={open} onClose={onClose} title={`Rescore ${batch.batchId}`}>
      {open && <RescoreForm batch={batch} onClose={onClose} {...(onDone ? { onDone } : {})} />}
    </Sheet>
  )
}

/** What the list offers beside the reward as it was. */
const AS_IT_WAS = ''
const EDITED = 'edited'

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
  const choices = useChoices()
  const before = useMemo(
    // The view's reward is the resolved one, as JSON.
    () => rewardText(askedReward(batch.reward as unknown as ResolvedReward)),
    [batch.reward],
  )
  const [text, setText] = useState(before)
  const [error, setError] = useState<string>()
  // One key a dialog: pressing twice, or again after a lost answer, makes one batch.
  const [key, setKey] = useState(() => crypto.randomUUID())
  const rescore = useMutation(
    trpc.batches.rescore.mutationOptions({
      onError: (failure) => {
        const { message, hint } = describeFailure(failure)
        setError(hint === '' ? message : `${message} ${hint}`)
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
  const submit = (event: FormEvent) => {
    event.preventDefault()
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
  const chosen = text === before ? AS_IT_WAS : choices.some((c) => c.text === text) ? text : EDITED
  return (
    <form onSubmit={submit} noValidate className="flex min-h-full flex-col">
      <div className="flex-1 space-y-4 px-5 py-4">
        <p className="text-ink-2">
          A new batch over the same {plural(batch.samples, 'rollout')}, linked to this one. This
          one, and what was trained on it, stays as it is.
        </p>
        <Select
          label="Score by"
          value={chosen}
          onChange={(event) =>
            change(event.target.value === AS_IT_WAS ? before : event.target.value)
          }
        >
          <option value={AS_IT_WAS}>{batch.rewardName}, as it was</option>
          {(['Reward models', 'Rules'] as const).map((group) => {
            const mine = choices.filter((choice) => choice.group === group)
            return (
              mine.length > 0 && (
                <optgroup key={group} label={group}>
                  {mine.map((choice) => (
                    <option key={choice.label} value={choice.text}>
                      {choice.label}
                    </option>
                  ))}
                </optgroup>
              )
            )
          })}
          {chosen === EDITED && (
            <option value={EDITED} disabled>
              as written below
            </option>
          )}
        </Select>
        <TextArea
          label="Reward"
          note="JSON"
          mono
          rows={14}
          hint="As in batches.submit: manager, function, model, judge, combine, kwargs, onFailure …"
          value={text}
          error={error}
          onChange={(event) => change(event.target.value)}
        />
      </div>
      <footer className="sticky bottom-0 flex items-center justify-end gap-2 border-t bg-raised px-5 py-3">
        <Button onClick={onClose}>Close</Button>
        <Button type="submit" variant="primary" busy={rescore.isPending}>
          Rescore
        </Button>
      </footer>
    </form>
  )
}

/** A reward to choose. */
export interface Choice {
  group: 'Reward models' | 'Rules'
  label: string
  /** What stands in the field when it is chosen. */
  text: string
}

/** For a list of rewards: the reward models that give scores by themselves, and the rules; a judge, a sum or a function is written. */
export function useChoices(): Choice[] {
  const trpc = useTRPC()
  const { data } = useQuery(trpc.rewards.list.queryOptions())
  return useMemo(() => {
    if (data === undefined) return []
    const models = data.models.filter((one) => one.kind === 'discriminative')
    return [
      ...models.map(
        ({ model }): Choice => ({
          group: 'Reward models',
          label: model,
          text: rewardText({ model }),
        }),
      ),
      ...data.rules.map(
        ({ name }): Choice => ({
          group: 'Rules',
          label: name,
          text: rewardText({ function: { name } }),
        }),
      ),
    ]
  }, [data])
}
