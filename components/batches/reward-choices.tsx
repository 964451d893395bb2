'use client'

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTRPC } from '../api/trpc.ts'
import { TextArea } from '../ui/field.tsx'
import { rewardText } from './reward-text.prepare.ts'

interface RewardChoice {
  group: 'Reward models' | 'Rules'
  label: string
  /** The reward JSON that selecting it fills in. */
  text: string
}

/**
 * The rewards offered in a list: discriminative reward models and rules. Judges, composite rewards and functions are
 * written as JSON.
 */
export function useRewardChoices(): RewardChoice[] {
  const trpc = useTRPC()
  const { data } = useQuery(trpc.rewards.list.queryOptions())
  return useMemo(() => {
    if (data === undefined) return []
    const models = data.models.filter((one) => one.kind === 'discriminative')
    return [
      ...models.map(
        ({ model }): RewardChoice => ({
          group: 'Reward models',
          label: model,
          text: rewardText({ model }),
        }),
      ),
      ...data.rules.map(
        ({ name }): RewardChoice => ({
          group: 'Rules',
          label: name,
          text: rewardText({ function: { name } }),
        }),
      ),
    ]
  }, [data])
}

/** The rewards as options of a list, grouped by kind. */
export function RewardOptions({ choices }: { choices: readonly RewardChoice[] }) {
  return (['Reward models', 'Rules'] as const).map((group) => {
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
  })
}

/** The reward as editable JSON. */
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
      note="JSON"
      mono
      rows={rows}
      hint="As in batches.submit: manager, function, model, judge, combine, kwargs, onFailure …"
      value={value}
      error={error}
      onChange={(event) => onChange(event.target.value)}
    />
  )
}
