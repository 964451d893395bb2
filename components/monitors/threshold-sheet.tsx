'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import {
  MONITOR_DEFINITIONS,
  type MonitorName,
  type MonitorSettingDto,
} from '../../server/contract/monitors.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { capitalized } from '../format/text.ts'
import { useMay } from '../session/use-may.ts'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { Checkbox, FieldAbout, Segmented, TextField } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { useErrorFocus } from '../ui/use-error-focus.ts'
import { ownSettings, readThreshold, type SettingValues, typedThreshold } from './monitor-words.ts'

export function ThresholdSheet({
  run,
  monitor,
  onClose,
}: {
  /** A run whose own thresholds can also be edited. If null, only the thresholds for all runs can be edited. */
  run: string | null
  monitor: MonitorName | null
  onClose(): void
}) {
  const title = monitor === null ? 'Thresholds' : MONITOR_DEFINITIONS[monitor].label
  return (
    <Sheet open={monitor !== null} onClose={onClose} title={title}>
      {monitor !== null && <Body run={run} monitor={monitor} onClose={onClose} />}
    </Sheet>
  )
}

function Body({
  run,
  monitor,
  onClose,
}: {
  run: string | null
  monitor: MonitorName
  onClose(): void
}) {
  const trpc = useTRPC()
  const [scope, setScope] = useState<'run' | 'all'>(run === null ? 'all' : 'run')
  const of = scope === 'run' ? run : null
  // The form keeps the values that it opens with, so they must not come from the cache.
  const settings = useQuery(trpc.monitors.settings.queryOptions({ run: of }, { gcTime: 0 }))
  const ofAll = useQuery(trpc.monitors.settings.queryOptions({ run: null }, { gcTime: 0 }))
  const { measures, why } = MONITOR_DEFINITIONS[monitor]
  const skeleton = <TableSkeleton columns={1} rows={4} />
  const settingOf = (list: readonly MonitorSettingDto[]) =>
    list.find((one) => one.monitor === monitor) as MonitorSettingDto
  return (
    <>
      <div className="space-y-3 px-5 pt-4">
        <p className="text-ink-2">
          {capitalized(measures)}. {why}
        </p>
        {run !== null && (
          <Segmented
            label="Applies to"
            value={scope}
            options={[
              { value: 'run', label: 'This run' },
              { value: 'all', label: 'All runs' },
            ]}
            onChange={setScope}
          />
        )}
      </div>
      <QueryView query={settings} skeleton={skeleton} compact>
        {(list) => (
          <QueryView query={ofAll} skeleton={skeleton} compact>
            {(listOfAll) => (
              <Form
                key={scope}
                run={of}
                setting={settingOf(list)}
                inherited={
                  of === null
                    ? { ...MONITOR_DEFINITIONS[monitor], enabled: true }
                    : settingOf(listOfAll)
                }
                onClose={onClose}
              />
            )}
          </QueryView>
        )}
      </QueryView>
    </>
  )
}

const SOURCE = {
  default: 'default',
  all_runs: 'set for all runs',
  run: 'set for this run',
} as const

function Form({
  run,
  setting,
  inherited,
  onClose,
}: {
  run: string | null
  setting: MonitorSettingDto
  /** For a run, the setting for all runs; otherwise the defaults. */
  inherited: SettingValues
  onClose(): void
}) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const definition = MONITOR_DEFINITIONS[setting.monitor]
  const refused = useMay('admin')
  const [warning, setWarning] = useState(typedThreshold(definition, setting.warning))
  const [alerting, setAlerting] = useState(typedThreshold(definition, setting.alerting))
  const [openAfter, setOpenAfter] = useState(String(setting.openAfter))
  const [enabled, setEnabled] = useState(setting.enabled)
  const [error, setError] = useState<string | null>(null)
  const configure = useMutation(
    trpc.monitors.configure.mutationOptions({
      onError: (thrown) => setError(describeFailure(thrown).message),
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.monitors.pathFilter())
        onClose()
      },
    }),
  )
  const { place, submitted } = useErrorFocus<HTMLFormElement>(configure.isPending)
  const isOwn = setting.source === (run === null ? 'all_runs' : 'run')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    submitted()
    const values = {
      warning: readThreshold(definition, warning, setting.warning),
      alerting: readThreshold(definition, alerting, setting.alerting),
      openAfter: Number(openAfter),
    }
    if (!Number.isFinite(values.warning) || !Number.isFinite(values.alerting))
      return setError('Enter both thresholds as numbers.')
    if (!Number.isInteger(values.openAfter) || values.openAfter < 1)
      return setError('Enter a whole number of batches, 1 or more.')
    setError(null)
    const own = ownSettings(definition, { enabled, ...values }, inherited)
    configure.mutate({ run, monitor: setting.monitor, ...own })
  }
  const unit = definition.unit === 'share' ? ', %' : ''
  const side = { above: 'at or above', below: 'at or below', size: 'at or beyond ±' }
  return (
    <form ref={place} onSubmit={submit} noValidate className="flex flex-col gap-4 px-5 py-4">
      <Checkbox label="Enabled" checked={enabled} onChange={setEnabled} />
      <TextField
        label={`Warning${unit}`}
        hint={`Values ${side[definition.bad]} this threshold trigger a warning.`}
        inputMode="decimal"
        value={warning}
        onChange={(event) => setWarning(event.target.value)}
      />
      <TextField
        label={`Alerting${unit}`}
        inputMode="decimal"
        value={alerting}
        onChange={(event) => setAlerting(event.target.value)}
      />
      <TextField
        label="Batches in a row"
        hint="Consecutive batches beyond the threshold before an incident opens. The incident resolves after three consecutive batches whose values are more than 10 % better than the warning threshold."
        inputMode="numeric"
        value={openAfter}
        onChange={(event) => setOpenAfter(event.target.value)}
      />
      <p className="text-xs text-ink-3">
        Current setting: {SOURCE[setting.source]}
        {setting.changedBy !== null && (
          <>
            {' '}
            by {setting.changedBy}, <Ago at={setting.changedAt} />
          </>
        )}
        . Changes apply from the next batch.
        {run !== null && ' A value equal to the all-runs value changes with it.'}
      </p>
      <FieldAbout error={error} />
      <div className="flex items-center justify-end gap-2">
        {isOwn && (
          <Button
            variant="quiet"
            className="mr-auto"
            refused={refused}
            busy={configure.isPending}
            onClick={() => {
              submitted()
              configure.mutate({
                ...{ run, monitor: setting.monitor, enabled: null, warning: null },
                ...{ alerting: null, openAfter: null },
              })
            }}
          >
            {run === null ? 'Reset to default' : 'Use all-runs setting'}
          </Button>
        )}
        <Button onClick={onClose}>Close</Button>
        <Button type="submit" variant="primary" refused={refused} busy={configure.isPending}>
          Save
        </Button>
      </div>
    </form>
  )
}
