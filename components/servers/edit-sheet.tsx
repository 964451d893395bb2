'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { ENGINES } from '../../server/contract/engines.ts'
import type { ServerDto } from '../../server/contract/servers.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { Sheet } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Checkbox, FieldAbout, TextField } from '../ui/field.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { Probing } from './probing.tsx'
import {
  type EditDraft,
  editDraft,
  type FieldErrors,
  placeFailure,
  prepareUpdate,
} from './register-form.prepare.ts'
import { SettingFields } from './setting-fields.tsx'
import { TemplateField } from './template-field.tsx'

/** Edits a server. A new URL or key is probed and tested before it is saved. */
export function EditSheet({ server, onClose }: { server: ServerDto | null; onClose(): void }) {
  return (
    <Sheet open={server !== null} onClose={onClose} title={server ? `Edit ${server.name}` : 'Edit'}>
      {server && <EditForm key={server.id} server={server} onClose={onClose} />}
    </Sheet>
  )
}

function EditForm({ server, onClose }: { server: ServerDto; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  // Updates of the server do not overwrite the open form.
  const [before] = useState(server)
  const [draft, setDraft] = useState<EditDraft>(() => editDraft(before))
  const [errors, setErrors] = useState<FieldErrors>({})
  const isScorer = before.kind === 'discriminative'
  const detail = useQuery(
    trpc.servers.get.queryOptions(
      { id: before.id },
      { enabled: isScorer, staleTime: Number.POSITIVE_INFINITY },
    ),
  )
  const templateBefore = detail.data?.chatTemplate ?? null
  const update = useMutation(
    trpc.servers.update.mutationOptions({
      onError: (error) => setErrors(placeFailure(describeFailure(error), 'edit')),
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.servers.pathFilter())
        onClose()
      },
    }),
  )
  const change = (part: Partial<EditDraft>) => {
    setDraft({ ...draft, ...part })
    const left = { ...errors }
    for (const name of Object.keys(part)) delete left[name as keyof FieldErrors]
    setErrors(left)
  }
  const submit = () => {
    const prepared = prepareUpdate(before, draft, templateBefore)
    if ('errors' in prepared) setErrors(prepared.errors)
    else if (prepared.input === null) onClose()
    else {
      setErrors({})
      update.mutate(prepared.input)
    }
  }
  const willProbe =
    draft.url.trim() !== before.url ||
    draft.apiKey !== '' ||
    draft.removeKey ||
    draft.chatTemplate !== null
  return (
    <SheetForm
      onSubmit={submit}
      onClose={onClose}
      action="Save"
      busy={update.isPending}
      beside={update.isPending && willProbe && <Probing address={draft.url.trim()} />}
    >
      <p className="text-ink-2">
        {ENGINES[before.engine].label}, {before.kind}, model{' '}
        <span className="font-mono text-xs">{before.model}</span>. To change any of these, register
        the server again.
      </p>
      <TextField
        label="URL"
        mono
        autoFocus
        hint="A new URL is probed and tested before it is saved."
        value={draft.url}
        error={errors.url ?? errors.model ?? errors.engine}
        onChange={(event) => change({ url: event.target.value })}
      />
      {detail.isLoadingError && (
        <FailureView compact error={detail.error} onRetry={() => void detail.refetch()} />
      )}
      {isScorer && (
        <TemplateField
          value={draft.chatTemplate ?? templateBefore ?? ''}
          error={errors.chatTemplate}
          disabled={detail.data === undefined}
          onChange={(chatTemplate) => change({ chatTemplate })}
        />
      )}
      <SettingFields
        draft={draft}
        errors={errors}
        keyHint="Leave empty to keep the current key."
        keyDisabled={draft.removeKey}
        onChange={change}
      >
        <Checkbox
          label="Remove API key"
          checked={draft.removeKey}
          onChange={(on) => change({ removeKey: on, apiKey: '' })}
        />
      </SettingFields>
      <FieldAbout error={errors.form ?? errors.kind ?? errors.name} />
    </SheetForm>
  )
}
