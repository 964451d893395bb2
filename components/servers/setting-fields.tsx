'use client'

import type { ReactNode } from 'react'
import { TextField } from '../ui/field.tsx'
import {
  type FieldErrors,
  SETTING_FIELDS,
  type SettingField,
  type SettingsDraft,
} from './register-form.prepare.ts'

const FIELDS = Object.entries(SETTING_FIELDS) as [keyof typeof SETTING_FIELDS, SettingField][]

export function SettingFields({
  draft,
  errors,
  keyHint,
  keyDisabled,
  onChange,
  children,
}: {
  draft: SettingsDraft
  errors: FieldErrors
  keyHint: string
  keyDisabled?: boolean
  onChange(change: Partial<SettingsDraft>): void
  children?: ReactNode
}) {
  const text = (name: keyof SettingsDraft) => ({
    value: draft[name],
    error: errors[name],
    onChange: (event: { target: { value: string } }) => onChange({ [name]: event.target.value }),
  })
  const fields = (areNumbers: boolean) =>
    FIELDS.filter(([, { inputMode }]) => (inputMode !== undefined) === areNumbers).map(
      ([name, { label, placeholder, hint, inputMode }]) => (
        <TextField key={name} {...{ label, placeholder, hint, inputMode }} {...text(name)} />
      ),
    )
  return (
    <>
      <div className="grid grid-cols-2 gap-3">{fields(true)}</div>
      <TextField
        label="API key"
        type="password"
        disabled={keyDisabled}
        hint={keyHint}
        {...text('apiKey')}
      />
      {children}
      {fields(false)}
    </>
  )
}
