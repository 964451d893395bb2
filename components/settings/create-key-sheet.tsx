'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { CreatedKeyDto } from '../../server/contract/access.ts'
import { KEY_ACCESS, type KeyAccess, ROLES, type Role } from '../../server/contract/roles.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { capitalized } from '../format/text.ts'
import { Button } from '../ui/button.tsx'
import { CopyButton } from '../ui/copy-text.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { Choices, TextField } from '../ui/field.tsx'
import { Select } from '../ui/select.tsx'
import { SheetFoot, SheetForm } from '../ui/sheet-form.tsx'
import { KeyLimits } from './key-limits.tsx'
import { ACCESS_WORDS, ROLE_WORDS } from './role-words.ts'

const ENDS: readonly [days: number | null, words: string][] = [
  [null, 'Never'],
  [7, 'In 7 days'],
  [30, 'In 30 days'],
  [90, 'In 90 days'],
  [365, 'In a year'],
]

export function CreateKeySheet({ open, onClose }: { open: boolean; onClose(): void }) {
  const [made, setMade] = useState<CreatedKeyDto | null>(null)
  const close = () => {
    setMade(null)
    onClose()
  }
  return (
    <Sheet open={open} onClose={close} title={made ? `Key ${made.name}` : 'New key'}>
      {made ? <NewKey made={made} onDone={close} /> : <KeyForm onMade={setMade} onClose={close} />}
    </Sheet>
  )
}

function KeyForm({ onMade, onClose }: { onMade(key: CreatedKeyDto): void; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [name, setName] = useState('')
  const [role, setRole] = useState<Role>('viewer')
  const [access, setAccess] = useState<KeyAccess>('full')
  const [runPrefix, setRunPrefix] = useState('')
  const [days, setDays] = useState<number | null>(null)
  const create = useMutation(
    trpc.keys.create.mutationOptions({
      // The response contains the key, so it is dropped from memory when the sheet closes.
      gcTime: 0,
      onSuccess: (key) => {
        void queryClient.invalidateQueries(trpc.keys.pathFilter())
        onMade(key)
      },
    }),
  )
  const failure = create.error && describeFailure(create.error)
  // The service refuses other combinations: an admin key covers every run, and only trainers submit.
  const isLimitable = role !== 'admin'
  const accesses = KEY_ACCESS.filter((one) => one !== 'submit' || role === 'trainer')
  const chosen = accesses.includes(access) ? access : 'full'
  const submit = () => {
    create.mutate({
      name,
      role,
      access: chosen,
      runPrefix: isLimitable && runPrefix.trim() !== '' ? runPrefix.trim() : null,
      expiresInDays: days,
    })
  }
  return (
    <SheetForm onSubmit={submit} onClose={onClose} action="Create key" busy={create.isPending}>
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
        hint="The user or client of this key, recorded in the audit log."
      />
      <Choices
        legend="Role"
        name="role"
        value={role}
        onChange={setRole}
        options={ROLES.map((one) => ({
          value: one,
          label: capitalized(one),
          about: ROLE_WORDS[one],
        }))}
      />
      <Choices
        legend="Access"
        name="access"
        value={chosen}
        onChange={setAccess}
        options={accesses.map((one) => ({ value: one, ...ACCESS_WORDS[one] }))}
      />
      {isLimitable && (
        <TextField
          label="Run prefix"
          placeholder="All runs"
          mono
          value={runPrefix}
          onChange={(event) => {
            setRunPrefix(event.target.value)
            create.reset()
          }}
          hint="The key can access only runs whose names begin with this prefix, such as team-a/. It cannot be used to sign in."
        />
      )}
      <Select
        label="Expires"
        value={days}
        options={ENDS.map(([value, label]) => ({ value, label }))}
        onChange={setDays}
      />
    </SheetForm>
  )
}

export function NewKey({ made, onDone }: { made: CreatedKeyDto; onDone(): void }) {
  return (
    <div className="flex min-h-full flex-col">
      <div className="flex-1 space-y-4 px-5 py-4">
        <p className="text-ink-2">Copy the key now. It is not stored and is shown only once.</p>
        <div className="rounded-md border border-line-strong bg-sunken p-3">
          <p className="font-mono text-xs leading-5 break-all select-all" data-new-key>
            {made.key}
          </p>
          <div className="mt-2 -ml-2">
            <CopyButton text={made.key} label="Copy key" />
          </div>
        </div>
        <dl className="grid grid-cols-[80px_minmax(0,1fr)] gap-y-1">
          <dt className="text-ink-3">Role</dt>
          <dd>
            {capitalized(made.role)}
            <span className="block text-xs text-ink-3">{ROLE_WORDS[made.role]}</span>
          </dd>
          <dt className="text-ink-3">Limits</dt>
          <dd>
            <KeyLimits of={made} />
          </dd>
          <dt className="text-ink-3">Send as</dt>
          <dd className="font-mono text-xs leading-5">Authorization: Bearer {made.prefix}…</dd>
        </dl>
      </div>
      <SheetFoot>
        <Button variant="primary" onClick={onDone}>
          Done
        </Button>
      </SheetFoot>
    </div>
  )
}
