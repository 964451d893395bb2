'use client'

import { TextField } from '../ui/field.tsx'
import type { FieldErrors, LimitsDraft } from './register-form.prepare.ts'

/** What may be given of a server's limits, and its key and tags; the same in both forms. */
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
          label="Most calls in flight"
          placeholder="found by measuring"
          inputMode="numeric"
          hint="Over all workers. Empty: 8 to 96, as its goodput says."
          {...text('maxInFlight')}
        />
        <TextField
          label="Weight"
          placeholder="1"
          inputMode="decimal"
          hint="Its capacity beside the others’."
          {...text('weight')}
        />
        <TextField
          label="Requests a minute"
          placeholder="no limit"
          inputMode="numeric"
          {...text('rpm')}
        />
        <TextField
          label="Tokens a minute"
          placeholder="no limit"
          inputMode="numeric"
          {...text('tpm')}
        />
      </div>
      <TextField
        label="Its key"
        type="password"
        disabled={keyDisabled}
        hint={keyHint}
        {...text('apiKey')}
      />
      <TextField
        label="Tags"
        placeholder="a100, team-b"
        hint="Parted by commas."
        {...text('tags')}
      />
    </>
  )
}
