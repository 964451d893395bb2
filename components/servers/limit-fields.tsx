'use client'

import { ADAPTIVE_MAX_IN_FLIGHT } from '../../server/contract/adaptive-limit.ts'
import { TextField } from '../ui/field.tsx'
import type { FieldErrors, LimitsDraft } from './register-form.prepare.ts'

/** The limit, key and tag fields shared by both forms. */
export function LimitFields({
  draft,
  errors,
  keyHint,
  keyDisabled,
  onChange,
}: {
  draft: LimitsDraft
  errors: FieldErrors
  keyHint: string
  keyDisabled?: boolean
  onChange(change: Partial<LimitsDraft>): void
}) {
  const text = (name: keyof LimitsDraft) => ({
    value: draft[name],
    error: errors[name],
    onChange: (event: { target: { value: string } }) => onChange({ [name]: event.target.value }),
  })
  return (
    <>
      <div className="grid grid-cols-2 gap-3">
        <TextField
          label="Concurrency limit"
          placeholder="adaptive"
          inputMode="numeric"
          hint={`Maximum requests in flight over all workers. Leave empty for an adaptive limit of at most ${ADAPTIVE_MAX_IN_FLIGHT}.`}
          {...text('maxInFlight')}
        />
        <TextField
          label="Weight"
          placeholder="1"
          inputMode="decimal"
          hint="Capacity relative to the other servers of the pool."
          {...text('weight')}
        />
        <TextField
          label="Requests per minute"
          placeholder="no limit"
          inputMode="numeric"
          {...text('rpm')}
        />
        <TextField
          label="Tokens per minute"
          placeholder="no limit"
          inputMode="numeric"
          {...text('tpm')}
        />
      </div>
      <TextField
        label="API key"
        type="password"
        disabled={keyDisabled}
        hint={keyHint}
        {...text('apiKey')}
      />
      <TextField
        label="Tags"
        placeholder="a100, team-b"
        hint="Separate with commas."
        {...text('tags')}
      />
    </>
  )
}
