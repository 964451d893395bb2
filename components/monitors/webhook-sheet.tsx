'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { WebhookDto } from '../../server/contract/alerts.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { Sheet } from '../ui/dialog.tsx'
import { Checkbox, FieldAbout, Segmented, TextArea, TextField } from '../ui/field.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { monitorLabel } from './monitor-words.ts'
import {
  MONITOR_GROUPS,
  readRuns,
  runsText,
  SEVERITY_CHOICES,
  selectedMonitors,
  severitiesOf,
  severityChoice,
  subscriptionOf,
  unknownRuns,
} from './webhook-form.prepare.ts'

export function WebhookSheet({
  webhook,
  onClose,
}: {
  webhook: WebhookDto | 'new' | null
  onClose(): void
}) {
  const before = webhook === 'new' ? null : webhook
  return (
    <Sheet
      open={webhook !== null}
      onClose={onClose}
      title={before === null ? 'Add webhook' : `Edit ${before.name}`}
    >
      {webhook !== null && (
        <WebhookForm key={before?.id ?? 'new'} before={before} onClose={onClose} />
      )}
    </Sheet>
  )
}

function WebhookForm({ before, onClose }: { before: WebhookDto | null; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [name, setName] = useState(before?.name ?? '')
  const [url, setUrl] = useState('')
  const [secret, setSecret] = useState('')
  const [unsigned, setUnsigned] = useState(false)
  const [severity, setSeverity] = useState(severityChoice(before?.severities ?? []))
  const [monitors, setMonitors] = useState(() =>
    selectedMonitors(before ?? { monitors: [], fleet: true }),
  )
  const [runs, setRuns] = useState(runsText(before?.runs ?? []))
  const [error, setError] = useState<string | null>(null)
  const known = useQuery(trpc.runs.list.queryOptions(undefined, { meta: { topics: ['batches'] } }))
  const named = readRuns(runs, before?.runs)
  const unknown = unknownRuns(named, known.data)
  const outcome = {
    onError: (thrown: unknown) => setError(describeFailure(thrown).message),
    onSuccess: () => {
      void queryClient.invalidateQueries(trpc.alerts.pathFilter())
      onClose()
    },
  }
  const create = useMutation(trpc.alerts.create.mutationOptions(outcome))
  const update = useMutation(trpc.alerts.update.mutationOptions(outcome))
  const submit = () => {
    if (name.trim() === '') return setError('Enter a name.')
    if (before === null && url.trim() === '') return setError('Enter a URL.')
    if (monitors.length === 0) return setError('Select at least one monitor.')
    setError(null)
    const wanted = {
      ...{ name, severities: severitiesOf(severity), ...subscriptionOf(monitors, before) },
      runs: named,
    }
    if (before === null) {
      create.mutate({ ...wanted, url, ...(secret === '' ? {} : { secret }) })
    } else {
      update.mutate({
        ...{ id: before.id, ...wanted },
        ...(url.trim() === '' ? {} : { url }),
        ...(unsigned ? { secret: null } : secret === '' ? {} : { secret }),
      })
    }
  }
  return (
    <SheetForm
      onSubmit={submit}
      onClose={onClose}
      action={before === null ? 'Add' : 'Save'}
      busy={create.isPending || update.isPending}
    >
      <TextField
        label="Name"
        placeholder="Team channel"
        autoFocus
        maxLength={80}
        value={name}
        onChange={(event) => setName(event.target.value)}
      />
      <TextField
        label="URL"
        mono
        placeholder={before?.displayUrl ?? 'https://hooks.example.com/…'}
        hint={
          before === null
            ? 'An http or https URL. It is not shown again, because it may contain a key.'
            : 'Leave empty to keep the current URL.'
        }
        value={url}
        onChange={(event) => setUrl(event.target.value)}
      />
      <TextField
        label="Secret"
        type="password"
        autoComplete="new-password"
        disabled={unsigned}
        hint={
          before?.signed
            ? 'Leave empty to keep the current secret. It is never shown.'
            : 'Optional, at least 8 characters. The secret signs every request (x-rewardops-signature) and is not shown again.'
        }
        value={secret}
        onChange={(event) => setSecret(event.target.value)}
      />
      {before?.signed && (
        <Checkbox label="Remove secret" checked={unsigned} onChange={setUnsigned} />
      )}
      <div>
        <p className="mb-1 text-xs font-medium text-ink-2">Notify on</p>
        <Segmented
          label="Severity"
          value={severity}
          options={SEVERITY_CHOICES}
          onChange={setSeverity}
        />
      </div>
      <fieldset>
        <legend className="mb-1 text-xs font-medium text-ink-2">Monitors</legend>
        {MONITOR_GROUPS.map((group) => (
          <MonitorGroup
            key={group.label}
            {...group}
            selected={monitors}
            onChange={(changed, on) =>
              setMonitors([
                ...monitors.filter((monitor) => !changed.includes(monitor)),
                ...(on ? changed : []),
              ])
            }
          />
        ))}
      </fieldset>
      <TextArea
        label="Runs"
        rows={3}
        hint={
          unknown.length > 0 ? (
            <span className="text-warn">
              There is no run {unknown.map((run) => `“${run}”`).join(', ')} yet. Its incidents are
              sent once it exists.
            </span>
          ) : (
            'Names of the runs whose monitors notify this webhook, one per line. Leave empty for all runs.'
          )
        }
        value={runs}
        onChange={(event) => setRuns(event.target.value)}
      />
      <FieldAbout error={error} />
    </SheetForm>
  )
}

function MonitorGroup({
  label,
  monitors,
  selected,
  onChange,
}: (typeof MONITOR_GROUPS)[number] & {
  selected: WebhookDto['monitors']
  onChange(changed: Readonly<WebhookDto['monitors']>, on: boolean): void
}) {
  const count = monitors.filter((monitor) => selected.includes(monitor)).length
  return (
    <fieldset aria-label={label} className="mb-2">
      <Checkbox
        label={label}
        checked={count === monitors.length}
        mixed={count > 0 && count < monitors.length}
        onChange={(on) => onChange(monitors, on)}
      />
      <div className="ml-6 grid grid-cols-2 gap-x-3">
        {monitors.map((monitor) => (
          <Checkbox
            key={monitor}
            label={monitorLabel(monitor)}
            checked={selected.includes(monitor)}
            onChange={(on) => onChange([monitor], on)}
          />
        ))}
      </div>
    </fieldset>
  )
}
