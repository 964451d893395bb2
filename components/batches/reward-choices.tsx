'use client'

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { TextArea } from '../ui/field.tsx'
import type { SelectOption } from '../ui/select.tsx'
import { rewardText } from './reward-text.prepare.ts'

/**
 * The rewards that can be selected from a list: discriminative reward models and rules. Each value is the reward JSON
 * that the selection fills in. Judges, composite rewards and functions are entered as JSON.
 */
export function useRewardChoices(): SelectOption<string>[] {
  const trpc = useTRPC()
  const { data } = useQuery(trpc.rewards.list.queryOptions())
  return useMemo(() => {
    if (data === undefined) return []
    const models = data.models.filter((one) => one.kind === 'discriminative')
    return [
      ...models.map(({ model }) => ({
        group: 'Reward models',
        label: model,
        value: rewardText({ model }),
      })),
      ...data.rules.map(({ name }) => ({
        group: 'Rules',
        label: name,
        value: rewardText({ function: { name } }),
      })),
    ]
  }, [data])
}

export function RewardField({
  value,
  rows,
  error,
  onChange,
}: {
  value: string
  rows: number
  error: string | undefined
  onChange(text: string): void
}) {
  return (
    <TextArea
      label="Reward JSON"
      mono
      rows={rows}
      hint="Fields as in batches.submit: manager, function, model, judge, combine, kwargs, onFailure …"
      value={value}
      error={error}
      onChange={(event) => onChange(event.target.value)}
    />
  )
}
