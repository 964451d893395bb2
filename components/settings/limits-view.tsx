'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Pencil, Plus, Trash2 } from 'lucide-react'
import { useState } from 'react'
import type { LimitsDto, RunLimitValues } from '../../server/contract/limits.ts'
import { failureText } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount, readInteger } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { ActionMenu } from '../ui/action-menu.tsx'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { FieldAbout, TextField } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'

export function LimitsView() {
  const trpc = useTRPC()
  const limits = useQuery(
    trpc.limits.get.queryOptions(undefined, { meta: { topics: ['batches'] } }),
  )
  return (
    <QueryView query={limits} skeleton={<TableSkeleton columns={5} rows={5} />}>
      {(data) => <Limits limits={data} />}
    </QueryView>
  )
}

/** The edited limits. `run` is null for the default limits, and empty while a new run has no name. */
interface Editing {
  run: string | null
  values: RunLimitValues
}

function Limits({ limits }: { limits: LimitsDto }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('admin')
  const [editing, setEditing] = useState<Editing | null>(null)
  const clear = useMutation(
    trpc.limits.clear.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.limits.pathFilter()),
    }),
  )
  return (
    <>
      <Section
        title="Default limits"
        note="For runs without their own limits"
        actions={
          <Button
            small
            refused={refused}
            onClick={() => setEditing({ run: null, values: limits.defaults })}
          >
            <Pencil size={14} aria-hidden />
            Edit
          </Button>
        }
      >
        <dl className="grid gap-x-8 gap-y-2 px-5 pt-1 pb-5 sm:grid-cols-3">
          {LIMIT_FIELDS.map(({ name, label }) => (
            <div key={name}>
              <dt className="text-xs text-ink-3">{label}</dt>
              <dd className="num text-md font-medium">
                {limits.defaults[name] === null ? (
                  <span className="font-normal text-ink-2">No limit</span>
                ) : (
                  formatCount(limits.defaults[name])
                )}
              </dd>
            </div>
          ))}
        </dl>
      </Section>
      <Section
        title="Limits by run"
        note={formatCount(limits.runs.length)}
        className="border-t"
        actions={
          <Button
            small
            refused={refused}
            onClick={() => setEditing({ run: '', values: limits.defaults })}
          >
            <Plus size={14} aria-hidden />
            Add run
          </Button>
        }
      >
        {clear.error && <FailureView compact error={clear.error} />}
        {limits.runs.length === 0 ? (
          <p className="px-5 pb-5 text-ink-2">
            No run has its own limits. A run’s own limits replace all default limits.
          </p>
        ) : (
          <Scroll label="Limits by run">
            <table className="grid-table">
              <ColumnHeads
                columns={[
                  'Run',
                  { end: 'Queued samples' },
                  { end: 'Active batches' },
                  { end: 'Max priority' },
                  'Changed',
                  { hidden: 'Actions' },
                ]}
              />
              <tbody>
                {limits.runs.map((row) => (
                  <tr key={row.run}>
                    <td className="name font-medium">
                      <RunName run={row.run} />
                    </td>
                    <td className="end">
                      <Use has={row.queuedSamples} most={row.maxQueuedSamples} />
                    </td>
                    <td className="end">
                      <Use has={row.openBatches} most={row.maxOpenBatches} />
                    </td>
                    <td className="num end">{row.maxPriority ?? 'Any'}</td>
                    <td className="text-ink-2">
                      <Ago at={row.changedAt} /> by {row.changedBy}
                    </td>
                    <td className="end">
                      <ActionMenu
                        label={`Actions for ${row.run}`}
                        actions={[
                          {
                            label: 'Edit…',
                            icon: <Pencil size={14} aria-hidden />,
                            refused,
                            onSelect: () => setEditing({ run: row.run, values: row }),
                          },
                          {
                            label: 'Use default limits',
                            icon: <Trash2 size={14} aria-hidden />,
                            apart: true,
                            refused,
                            onSelect: () => clear.mutate({ run: row.run }),
                          },
                        ]}
                      />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        )}
      </Section>
      {editing && <LimitSheet of={editing} onClose={() => setEditing(null)} />}
    </>
  )
}

function Use({ has, most }: { has: number; most: number | null }) {
  return (
    <span className={`num ${most !== null && has >= most ? 'text-warn' : ''}`}>
      {formatCount(has)}
      <span className="unit">{most === null ? ', no limit' : ` of ${formatCount(most)}`}</span>
    </span>
  )
}

function LimitSheet({ of, onClose }: { of: Editing; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const runs = useQuery(trpc.runs.list.queryOptions(undefined, { enabled: of.run === '' }))
  const [run, setRun] = useState(of.run)
  const [draft, setDraft] = useState<LimitDraft>(() => limitDraft(of.values))
  const [errors, setErrors] = useState<Partial<Record<keyof LimitDraft | 'run', string>>>({})
  const set = useMutation(
    trpc.limits.set.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.limits.pathFilter())
        onClose()
      },
    }),
  )
  const submit = () => {
    const read = readLimits(draft)
    const named = of.run !== '' || run?.trim() ? {} : { run: 'Enter a run name.' }
    if ('errors' in read || 'run' in named) {
      setErrors({ ...('errors' in read ? read.errors : {}), ...named })
      return
    }
    setErrors({})
    // Only an entered name is trimmed. The name of a run that already has limits may begin or end with a space.
    set.mutate({ run: of.run === '' ? (run ?? '').trim() : of.run, limits: read.limits })
  }
  const failure = set.error && failureText(set.error)
  return (
    <Sheet
      open
      onClose={onClose}
      title={of.run === null ? 'Default limits' : of.run === '' ? 'Run limits' : of.run}
    >
      <SheetForm onSubmit={submit} onClose={onClose} action="Save" busy={set.isPending}>
        {of.run === '' && (
          <>
            <TextField
              label="Run"
              list="runs-to-limit"
              autoFocus
              value={run ?? ''}
              error={errors.run}
              onChange={(event) => setRun(event.target.value)}
              hint="The run does not need to exist yet."
            />
            <datalist id="runs-to-limit">
              {runs.data?.map(({ name }) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </>
        )}
        {LIMIT_FIELDS.map(({ name, label, hint }) => (
          <TextField
            key={name}
            label={label}
            inputMode="numeric"
            placeholder="No limit"
            value={draft[name]}
            error={errors[name]}
            hint={hint}
            onChange={(event) => {
              setDraft({ ...draft, [name]: event.target.value })
              setErrors({})
              set.reset()
            }}
          />
        ))}
        <FieldAbout error={failure} />
      </SheetForm>
    </Sheet>
  )
}

const LIMIT_FIELDS = [
  {
    name: 'maxQueuedSamples',
    label: 'Queued samples',
    hint: 'Accepted samples that have neither been scored nor failed yet, across all batches of the run. Submissions beyond the limit are refused and can be retried later.',
  },
  {
    name: 'maxOpenBatches',
    label: 'Active batches',
    hint: 'Batches that are open or running.',
  },
  {
    name: 'maxPriority',
    label: 'Max priority',
    hint: 'From −100 to 100. A batch’s default priority is 0.',
  },
] as const satisfies readonly { name: keyof RunLimitValues; label: string; hint: string }[]

type LimitDraft = Record<keyof RunLimitValues, string>

const BOUNDS: Record<keyof RunLimitValues, [least: number, most: number]> = {
  maxQueuedSamples: [0, 2_000_000_000],
  maxOpenBatches: [0, 1_000_000],
  maxPriority: [-100, 100],
}

/** Limits as field texts. An empty field means no limit. */
function limitDraft(values: RunLimitValues): LimitDraft {
  const text = (value: number | null) => (value === null ? '' : String(value))
  return {
    maxQueuedSamples: text(values.maxQueuedSamples),
    maxOpenBatches: text(values.maxOpenBatches),
    maxPriority: text(values.maxPriority),
  }
}

function readLimits(
  draft: LimitDraft,
): { limits: RunLimitValues } | { errors: Partial<Record<keyof LimitDraft, string>> } {
  const errors: Partial<Record<keyof LimitDraft, string>> = {}
  const read = (name: keyof LimitDraft): number | null => {
    if (draft[name].trim() === '') return null
    const value = readInteger(draft[name])
    const [least, most] = BOUNDS[name]
    if (!Number.isInteger(value) || value < least || value > most) {
      errors[name] =
        `Enter a whole number from ${least} to ${most.toLocaleString('en')}, or leave it empty.`
    }
    return value
  }
  const limits = {
    maxQueuedSamples: read('maxQueuedSamples'),
    maxOpenBatches: read('maxOpenBatches'),
    maxPriority: read('maxPriority'),
  }
  return Object.keys(errors).length > 0 ? { errors } : { limits }
}
