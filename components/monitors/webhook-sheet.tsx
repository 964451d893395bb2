'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { WebhookDto } from '../../server/contract/alerts.ts'
import { FLEET_MONITORS, MONITORS, type Severity } from '../../server/contract/monitors.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { Sheet } from '../ui/dialog.tsx'
import { Checkbox, FieldAbout, Segmented, TextField } from '../ui/field.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { monitorLabel } from './monitor-words.ts'

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

const ALL = [...MONITORS, ...FLEET_MONITORS] as const

function WebhookForm({ before, onClose }: { before: WebhookDto | null; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [name, setName] = useState(before?.name ?? '')
  const [url, setUrl] = useState('')
  const [secret, setSecret] = useState('')
  const [unsigned, setUnsigned] = useState(false)
  const [alertsOnly, setAlertsOnly] = useState(before?.severities.length === 1)
  const [monitors, setMonitors] = useState<WebhookDto['monitors']>(before?.monitors ?? [])
  const [runs, setRuns] = useState(before?.runs.join(', ') ?? '')
  const [fleet, setFleet] = useState(before?.fleet ?? true)
  const [error, setError] = useState<string | null>(null)
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
    setError(null)
    const severities: Severity[] = alertsOnly ? ['alerting'] : ['warning', 'alerting']
    const wanted = {
      ...{ name, severities, monitors, fleet },
      runs: runs
        .split(',')
        .map((run) => run.trim())
        .filter((run) => run !== ''),
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
        placeholder="team channel"
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
            : 'At least 8 characters. The secret signs every request (x-rewardops-signature) and is not shown again.'
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
          value={alertsOnly ? 'alerting' : 'all'}
          options={[
            { value: 'all', label: 'Warnings and alerts' },
            { value: 'alerting', label: 'Alerts only' },
          ]}
          onChange={(value) => setAlertsOnly(value === 'alerting')}
        />
      </div>
      <fieldset>
        <legend className="mb-1 text-xs font-medium text-ink-2">
          Monitors{' '}
          <span className="font-normal text-ink-3">
            {monitors.length === 0 ? 'all' : `${monitors.length} of ${ALL.length}`}
          </span>
        </legend>
        <div className="grid grid-cols-2 gap-x-3">
          {ALL.map((monitor) => (
            <Checkbox
              key={monitor}
              label={monitorLabel(monitor)}
              checked={monitors.includes(monitor)}
              onChange={(on) =>
                setMonitors(on ? [...monitors, monitor] : monitors.filter((one) => one !== monitor))
              }
            />
          ))}
        </div>
      </fieldset>
      <TextField
        label="Runs"
        hint="Run names, separated by commas. Leave empty for all runs."
        value={runs}
        onChange={(event) => setRuns(event.target.value)}
      />
      <Checkbox
        label="Server alerts"
        about="Unavailable servers, and models without a healthy server."
        checked={fleet}
        onChange={setFleet}
      />
      <FieldAbout error={error} />
    </SheetForm>
  )
}
