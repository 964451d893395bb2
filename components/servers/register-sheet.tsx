'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import type { ServerDto } from '../../server/wire/servers.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { Button } from '../ui/button.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { FieldAbout, Select, TextField } from '../ui/field.tsx'
import {
  EMPTY_DRAFT,
  type FieldErrors,
  placeFailure,
  prepareRegister,
  type RegisterDraft,
} from './register-form.prepare.ts'

const ENGINE_CHOICES = [
  ['auto', 'Find out by asking it'],
  ['vllm', 'vLLM'],
  ['sglang', 'SGLang'],
  ['openrlhf', 'OpenRLHF'],
] as const

/** Registers a reward-model server: it is asked who it is before anything is saved. */
export function RegisterSheet({
  open,
  onClose,
  onRegistered,
}: {
  open: boolean
  onClose(): void
  onRegistered(server: ServerDto): void
}) {
  return (
    <Sheet open={open} onClose={onClose} title="Register a server">
      <RegisterForm onRegistered={onRegistered} onClose={onClose} />
    </Sheet>
  )
}

function RegisterForm({
  onRegistered,
  onClose,
}: {
  onRegistered(server: ServerDto): void
  onClose(): void
}) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [draft, setDraft] = useState<RegisterDraft>(EMPTY_DRAFT)
  const [errors, setErrors] = useState<FieldErrors>({})
  const register = useMutation(
    trpc.servers.register.mutationOptions({
      onError: (error) => setErrors(placeFailure(describeFailure(error))),
      onSuccess: (server) => {
        void queryClient.invalidateQueries(trpc.servers.pathFilter())
        onRegistered(server)
      },
    }),
  )
  const change = (part: Partial<RegisterDraft>) => {
    setDraft({ ...draft, ...part })
    const left = { ...errors }
    for (const name of Object.keys(part)) delete left[name as keyof FieldErrors]
    setErrors(left)
  }
  const submit = (event: FormEvent) => {
    event.preventDefault()
    const prepared = prepareRegister(draft)
    if ('errors' in prepared) setErrors(prepared.errors)
    else {
      setErrors({})
      register.mutate(prepared.input)
    }
  }
  const text = (name: Exclude<keyof RegisterDraft, 'engine' | 'ifUnreachable'>) => ({
    value: draft[name],
    error: errors[name],
    onChange: (event: { target: { value: string } }) => change({ [name]: event.target.value }),
  })
  return (
    <form onSubmit={submit} noValidate className="flex min-h-full flex-col">
      <div className="flex-1 space-y-4 px-5 py-4">
        <TextField
          label="Address"
          placeholder="http://10.0.0.5:8000"
          mono
          autoFocus
          hint="Its root, without a path. Redirects are never followed."
          {...text('url')}
        />
        <TextField
          label="Name"
          placeholder="rm-1"
          hint="The same name again updates it."
          {...text('name')}
        />
        <div>
          <Select
            label="Engine"
            value={draft.engine}
            onChange={(event) => change({ engine: event.target.value as RegisterDraft['engine'] })}
          >
            {ENGINE_CHOICES.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </Select>
          <FieldAbout error={errors.engine} />
        </div>
        <TextField
          label="Model"
          placeholder="what the server says it serves"
          hint="Batches name the model; servers of one model form a pool."
          {...text('model')}
        />
        <div className="grid grid-cols-2 gap-3">
          <TextField
            label="Most calls in flight"
            placeholder="chosen by the service"
            inputMode="numeric"
            {...text('maxInFlight')}
          />
          <TextField label="Weight" placeholder="1" inputMode="decimal" {...text('weight')} />
        </div>
        <TextField
          label="Its key"
          type="password"
          hint="Sent to this server as a bearer token; never shown again."
          {...text('apiKey')}
        />
        <TextField
          label="Tags"
          placeholder="a100, team-b"
          hint="Parted by commas."
          {...text('tags')}
        />
        <fieldset>
          <legend className="mb-1 text-xs font-medium text-ink-2">If it does not answer now</legend>
          {(
            [
              ['refuse', 'Do not save it', 'A mistyped address is noticed at once.'],
              ['keep', 'Save it and go on asking', 'For a server that is still loading its model.'],
            ] as const
          ).map(([value, label, about]) => (
            <label key={value} className="flex cursor-pointer gap-2.5 py-1">
              <input
                type="radio"
                name="ifUnreachable"
                value={value}
                checked={draft.ifUnreachable === value}
                onChange={() => change({ ifUnreachable: value })}
                className="mt-[3.5px] accent-(--accent-fill)"
              />
              <span>
                {label}
                <span className="block text-xs text-ink-3">{about}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <FieldAbout error={errors.form} />
      </div>
      <footer className="sticky bottom-0 flex items-center justify-end gap-2 border-t bg-raised px-5 py-3">
        {register.isPending && (
          <span className="mr-auto text-xs text-ink-2" role="status">
            Asking {draft.url.trim()} who it is…
          </span>
        )}
        <Button onClick={onClose}>Close</Button>
        <Button type="submit" variant="primary" busy={register.isPending}>
          Register
        </Button>
      </footer>
    </form>
  )
}
