'use client'

import { useQuery } from '@tanstack/react-query'
import { useId } from 'react'
import type { PlannerDto } from '../../server/contract/planner.ts'
import type { Phases } from '../../server/contract/strategies.ts'
import { useTRPC } from '../api/trpc.ts'
import { Button } from '../ui/button.tsx'
import { Segmented, TextField } from '../ui/field.tsx'
import { Select } from '../ui/select.tsx'
import type { PlannerErrors } from './planner-form.prepare.ts'
import type { PlannerDraft, Spread } from './planner-url.ts'
import { PLANNER_EXAMPLES, withSource } from './planner-url.ts'

const SPREAD_LABELS: Record<Spread, { name: string; first: string; second: string | null }> = {
  uniform: { name: 'Uniform', first: 'From, s', second: 'To, s' },
  lognormal: { name: 'Lognormal', first: 'Median, s', second: 'Sigma' },
  constant: { name: 'Constant', first: 'Latency, s', second: null },
}

export function PlannerForm({
  draft,
  errors,
  plan,
  onChange,
}: {
  draft: PlannerDraft
  errors: PlannerErrors
  /** The plan; null if there is no plan yet. Empty fields show its derived values. */
  plan: Pick<PlannerDto, 'phases' | 'columns'> | null
  onChange(part: Partial<PlannerDraft>): void
}) {
  const field = (name: keyof PlannerDraft) => ({
    value: draft[name],
    error: errors[name],
    onChange: (event: { target: { value: string } }) => onChange({ [name]: event.target.value }),
  })
  const derived = (name: keyof Phases) =>
    draft.source === 'typed' || plan === null ? '' : `${plan.phases[name] / 1_000}`
  const limits = [...new Set(plan?.columns.map(({ limit }) => limit ?? 'none'))].join(', ')
  return (
    <form
      aria-label="Plan settings"
      onSubmit={(event) => event.preventDefault()}
      noValidate
      className="space-y-4 px-5 py-4"
    >
      <div>
        <p className="mb-1 text-xs font-medium text-ink-2">Example</p>
        <div className="flex flex-wrap gap-1.5">
          {PLANNER_EXAMPLES.map(({ name, draft: example }) => (
            <Button key={name} small onClick={() => onChange(example)}>
              {name}
            </Button>
          ))}
        </div>
      </div>
      <fieldset className="space-y-3">
        <legend className="mb-1 text-xs font-medium text-ink-2">Reward latency</legend>
        <Segmented
          label="Latency source"
          value={draft.source}
          options={[
            { value: 'typed', label: 'Distribution' },
            { value: 'batch', label: 'Batch' },
            { value: 'run', label: 'Run' },
          ]}
          onChange={(source) => onChange(withSource(draft, source))}
        />
        {draft.source === 'batch' ? (
          <BatchField {...field('batch')} />
        ) : draft.source === 'run' ? (
          <RunField value={draft.run} onChange={(run) => onChange({ run })} />
        ) : (
          <TypedFields draft={draft} field={field} onChange={onChange} />
        )}
      </fieldset>
      <fieldset>
        <legend className="mb-2 text-xs text-ink-3">Trainer time per step</legend>
        <div className="grid grid-cols-3 gap-3">
          <TextField
            label="Rollout, s"
            inputMode="decimal"
            placeholder={derived('rolloutMs')}
            {...field('rollout')}
          />
          <TextField
            label="Log-probs, s"
            inputMode="decimal"
            placeholder={derived('logProbMs')}
            {...field('logprob')}
          />
          <TextField
            label="Updates, s"
            inputMode="decimal"
            placeholder={derived('updateMs')}
            {...field('update')}
          />
        </div>
      </fieldset>
      <div className="grid grid-cols-2 gap-3">
        <TextField label="Mini-batches per step" inputMode="numeric" {...field('mini')} />
        <TextField label="Steps" inputMode="numeric" {...field('steps')} />
        <TextField
          label="Concurrency per server"
          placeholder={draft.source === 'typed' ? '' : limits}
          {...field('limits')}
        />
        <TextField label="Servers" {...field('servers')} />
      </div>
    </form>
  )
}

type FieldProps = {
  value: string
  error: string | undefined
  onChange(event: { target: { value: string } }): void
}

function TypedFields({
  draft,
  field,
  onChange,
}: {
  draft: PlannerDraft
  field(name: keyof PlannerDraft): FieldProps
  onChange(part: Partial<PlannerDraft>): void
}) {
  const words = SPREAD_LABELS[draft.spread]
  return (
    <>
      <div className="grid grid-cols-[112px_minmax(0,1fr)_minmax(0,1fr)] gap-3">
        <Select
          label="Distribution"
          value={draft.spread}
          options={(Object.keys(SPREAD_LABELS) as Spread[]).map((value) => ({
            value,
            label: SPREAD_LABELS[value].name,
          }))}
          onChange={(spread) => onChange({ spread })}
        />
        <TextField label={words.first} inputMode="decimal" {...field('first')} />
        {words.second !== null && (
          <TextField label={words.second} inputMode="decimal" {...field('second')} />
        )}
      </div>
      <div className="grid grid-cols-[112px_minmax(0,1fr)_minmax(0,1fr)] gap-3">
        <TextField label="Prompts" inputMode="numeric" {...field('prompts')} />
        <TextField label="Group size" inputMode="numeric" {...field('group')} />
        <TextField label="Retried, %" inputMode="decimal" {...field('failed')} />
      </div>
    </>
  )
}

function BatchField(props: FieldProps) {
  const trpc = useTRPC()
  const batches = useQuery(trpc.batches.list.queryOptions({ limit: 50 }))
  const list = useId()
  return (
    <>
      <TextField
        label="Batch"
        list={list}
        mono
        placeholder="b12"
        hint="Every step repeats this batch."
        {...props}
      />
      <datalist id={list}>
        {(batches.data?.items ?? []).map(({ batchId, run, step }) => (
          <option key={batchId} value={batchId}>{`${run}, step ${step}`}</option>
        ))}
      </datalist>
    </>
  )
}

function RunField({ value, onChange }: { value: string; onChange(run: string): void }) {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions())
  return (
    <Select
      label="Run"
      searchable
      value={value}
      options={(runs.data ?? []).map(({ name }) => name)}
      placeholder={value || (runs.data?.length === 0 ? 'No runs yet' : 'Select…')}
      onChange={onChange}
    />
  )
}
