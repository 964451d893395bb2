'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import type { CreatedKeyDto } from '../../server/wire/access.ts'
import { ROLES, type Role } from '../../server/wire/roles.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-text.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { Choices, Select, TextField } from '../ui/field.tsx'
import { ROLE_WORDS } from './role-words.ts'

const ENDS: readonly [days: number | null, words: string][] = [
  [null, 'It does not end by itself'],
  [7, 'In 7 days'],
  [30, 'In 30 days'],
  [90, 'In 90 days'],
  [365, 'In a year'],
]

/** Makes a key and shows it, this once. */
export function CreateKeySheet({ open, onClose }: { open: boolean; onClose(): void }) {
  const [made, setMade] = useState<CreatedKeyDto | null>(null)
  const close = () => {
    setMade(null)
    onClose()
  }
  return (
    <Sheet open={open} onClose={close} title={made ? `The key ${made.name}` : 'New key'}>
      {made ? <Made made={made} onDone={close} /> : <KeyForm onMade={setMade} onClose={close} />}
    </Sheet>
  )
}

function KeyForm({ onMade, onClose }: { onMade(key: CreatedKeyDto): void; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('viewer')
  const [days, setDays] = useState<number | null>(null)
  const create = useMutation(
    trpc.keys.create.mutationOptions({
      // The answer holds the key: nothing of it stays in memory once the sheet is closed.
      gcTime: 0,
      onSuccess: (key) => {
        void queryClient.invalidateQueries(trpc.keys.pathFilter())
        onMade(key)
      },
    }),
  )
  const failure = create.error && describeFailure(create.error)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    create.mutate({ name, role, expiresInDays: days })
  }
  return (
    <form onSubmit={submit} noValidate className="flex min-h-full flex-col">
      <div className="flex-1 space-y-4 px-5 py-4">
        <TextField
          label="Name"
          placeholder="wall display"
          autoFocus
          value={name}
          onChange={(event) => {
            setName(event.target.value)
            create.reset()
          }}
          error={failure ? failure.message : undefined}
          hint="Who or what uses it; changes are noted under it."
        />
        <Choices
          legend="Role"
          name="role"
          value={role}
          onChange={setRole}
          options={ROLES.map((one) => ({ value: one, label: one, about: ROLE_WORDS[one] }))}
        />
        <Select
          label="Ends"
          value={days ?? ''}
          onChange={(event) =>
            setDays(event.target.value === '' ? null : Number(event.target.value))
          }
        >
          {ENDS.map(([value, words]) => (
            <option key={words} value={value ?? ''}>
              {words}
            </option>
          ))}
        </Select>
      </div>
      <footer className="sticky bottom-0 flex items-center justify-end gap-2 border-t bg-raised px-5 py-3">
        <Button onClick={onClose}>Close</Button>
        <Button type="submit" variant="primary" busy={create.isPending}>
          Make the key
        </Button>
      </footer>
    </form>
  )
}

function Made({ made, onDone }: { made: CreatedKeyDto; onDone(): void }) {
  return (
    <div className="flex min-h-full flex-col">
      <div className="flex-1 space-y-4 px-5 py-4">
        <p className="text-ink-2">
          Copy it now. It is kept nowhere, and this is the only time it is shown.
        </p>
        <div className="rounded-md border border-line-strong bg-sunken p-3">
          <p className="font-mono text-xs leading-5 break-all select-all" data-new-key>
            {made.key}
          </p>
          <div className="mt-2 -ml-2">
            <CopyButton text={made.key} label="Copy the key" />
          </div>
        </div>
        <dl className="grid grid-cols-[80px_minmax(0,1fr)] gap-y-1">
          <dt className="text-ink-3">Role</dt>
          <dd>
            {made.role}
            <span className="block text-xs text-ink-3">{ROLE_WORDS[made.role]}</span>
          </dd>
          <dt className="text-ink-3">Sent as</dt>
          <dd className="font-mono text-xs leading-5">Authorization: Bearer {made.prefix}…</dd>
        </dl>
      </div>
      <footer className="sticky bottom-0 flex justify-end border-t bg-raised px-5 py-3">
        <Button variant="primary" onClick={onDone}>
          I have copied it
        </Button>
      </footer>
    </div>
  )
}
