'use client'

import { Popover } from '@base-ui/react/popover'
import { useQuery } from '@tanstack/react-query'
import { ListFilter, Plus } from 'lucide-react'
import { useState } from 'react'
import { GROUP_SIGNAL_FILTERS } from '../../server/contract/group-signal.ts'
import type { ExtraKeyDto } from '../../server/contract/sample-extras.ts'
import type { ExtraFilter, SampleFilter } from '../../server/contract/sample-filter.ts'
import { useTRPC } from '../api/trpc.ts'
import { SIGNAL_FILTER_LABEL } from '../batches/group-signal-text.ts'
import { formatCompact } from '../format/numbers.ts'
import { MENU_POPUP } from '../ui/action-menu.tsx'
import { Button } from '../ui/button.tsx'
import { TextField } from '../ui/field.tsx'
import { Select } from '../ui/select.tsx'
import { finiteOf, TypedFilter, wholeOf } from './filter-fields.tsx'

export function MoreFilters({
  filter,
  extraKeys,
  onChange,
}: {
  filter: SampleFilter
  extraKeys: readonly ExtraKeyDto[]
  onChange(change: Partial<SampleFilter>): void
}) {
  const { split, rescored, lengthMin, lengthMax, attemptsMin, substituted, annotated, label } =
    filter
  const { groupSignal, failedToolCall } = filter
  const active = [
    split,
    rescored,
    groupSignal,
    failedToolCall,
    lengthMin,
    lengthMax,
    attemptsMin,
    substituted,
    annotated,
    label,
  ].filter((value) => value !== undefined).length
  return (
    <Popover.Root>
      <Popover.Trigger
        render={
          <Button small className={active > 0 ? 'border-accent!' : ''}>
            <ListFilter size={13} aria-hidden />
            More filters
            {active > 0 && <span className="num">· {active}</span>}
          </Button>
        }
      />
      <Popover.Portal>
        <Popover.Positioner align="start" sideOffset={4} className="z-50">
          <Popover.Popup
            aria-label="More filters"
            className={`${MENU_POPUP} max-h-[70vh] w-[min(360px,calc(100vw-24px))] overflow-y-auto p-3!`}
          >
            <div className="space-y-3">
              <Range
                name="Response length"
                unit="tokens"
                min={lengthMin}
                max={lengthMax}
                onChange={(lengthMin, lengthMax) => onChange({ lengthMin, lengthMax })}
              />
              <div className="grid grid-cols-2 gap-3">
                <Labeled name="Attempts">
                  <TypedFilter
                    label="Minimum attempts"
                    placeholder="≥"
                    value={attemptsMin === undefined ? null : String(attemptsMin)}
                    width="w-full"
                    numeric="integer"
                    onCommit={(text) => onChange({ attemptsMin: wholeOf(text) })}
                  />
                </Labeled>
                <Select
                  label="Split"
                  value={split ?? null}
                  options={[
                    { value: null, label: 'Both' },
                    { value: 'train', label: 'Training' },
                    { value: 'val', label: 'Validation' },
                  ]}
                  onChange={(value) => onChange({ split: value ?? undefined })}
                />
                <Select
                  label="Rescored"
                  value={rescored ?? null}
                  options={[
                    { value: null, label: 'Any' },
                    { value: false, label: 'Not rescored' },
                    { value: true, label: 'Rescored' },
                  ]}
                  onChange={(value) => onChange({ rescored: value ?? undefined })}
                />
                <Select
                  label="Substituted score"
                  title="Whether the failure policy of the batch set or removed the score, because a sample failed."
                  value={substituted ?? null}
                  options={[
                    { value: null, label: 'Any' },
                    { value: true, label: 'Yes' },
                    { value: false, label: 'No' },
                  ]}
                  onChange={(value) => onChange({ substituted: value ?? undefined })}
                />
                <Labels filter={filter} onChange={onChange} />
                <Select
                  label="Group signal"
                  value={groupSignal ?? null}
                  options={[
                    { value: null, label: 'Any' },
                    ...GROUP_SIGNAL_FILTERS.map((value) => ({
                      ...{ value, label: SIGNAL_FILTER_LABEL[value] },
                    })),
                  ]}
                  onChange={(value) => onChange({ groupSignal: value ?? undefined })}
                />
                <Select
                  label="Tool calls"
                  value={failedToolCall ?? null}
                  options={[
                    { value: null, label: 'Any' },
                    { value: true, label: 'A call failed' },
                    { value: false, label: 'None failed' },
                  ]}
                  onChange={(value) => onChange({ failedToolCall: value ?? undefined })}
                />
              </div>
              <ExtraForm
                keys={extraKeys}
                full={(filter.extra?.length ?? 0) >= 8}
                onAdd={(extra) => onChange({ extra: [...(filter.extra ?? []), extra] })}
              />
            </div>
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  )
}

function Labeled({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <p className="mb-1 text-xs font-medium text-ink-2" aria-hidden>
        {name}
      </p>
      {children}
    </div>
  )
}

function Range({
  name,
  unit,
  min,
  max,
  onChange,
}: {
  name: string
  unit: string
  min: number | undefined
  max: number | undefined
  onChange(min: number | undefined, max: number | undefined): void
}) {
  return (
    <Labeled name={name}>
      <span className="flex items-center gap-1.5 text-xs text-ink-3">
        <TypedFilter
          label={`${name} from`}
          placeholder="≥"
          value={min === undefined ? null : String(min)}
          width="w-20"
          numeric="integer"
          onCommit={(text) => onChange(wholeOf(text), max)}
        />
        –
        <TypedFilter
          label={`${name} to`}
          placeholder="≤"
          value={max === undefined ? null : String(max)}
          width="w-20"
          numeric="integer"
          onCommit={(text) => onChange(min, wholeOf(text))}
        />
        {unit}
      </span>
    </Labeled>
  )
}

function Labels({
  filter,
  onChange,
}: {
  filter: SampleFilter
  onChange(change: Partial<SampleFilter>): void
}) {
  const trpc = useTRPC()
  const { run, batch, annotated, label } = filter
  const labels = useQuery(
    trpc.annotations.labels.queryOptions({
      ...(run === undefined ? {} : { run }),
      ...(batch === undefined ? {} : { batch }),
    }),
  )
  const value = label !== undefined ? `=${label}` : annotated === undefined ? '' : String(annotated)
  return (
    <Select
      label="Annotations"
      searchable
      value={value}
      options={[
        { value: '', label: 'Any' },
        { value: 'true', label: 'Annotated' },
        { value: 'false', label: 'Not annotated' },
        ...(labels.data ?? []).map(({ label, samples }) => ({
          value: `=${label}`,
          label,
          note: formatCompact(samples),
          group: 'Labels',
        })),
      ]}
      placeholder={label ?? ''}
      onChange={(next) =>
        onChange({
          label: next.startsWith('=') ? next.slice(1) : undefined,
          annotated: next === 'true' ? true : next === 'false' ? false : undefined,
        })
      }
    />
  )
}

type Kind = ExtraFilter['is']

function ExtraForm({
  keys,
  full,
  onAdd,
}: {
  keys: readonly ExtraKeyDto[]
  full: boolean
  onAdd(extra: ExtraFilter): void
}) {
  const [key, setKey] = useState('')
  const [chosen, setChosen] = useState<Kind | null>(null)
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const known = keys.find((each) => each.key === key)
  const kind = chosen ?? usualKind(known)
  const condition = key === '' ? null : conditionOf(key, kind, from, to)
  const begin = (key: string) => {
    setKey(key)
    setChosen(null)
    setFrom('')
    setTo('')
  }
  return (
    <fieldset className="border-t pt-3">
      <legend className="sr-only">Reward extra info</legend>
      {keys.length === 0 ? (
        <p className="text-xs text-ink-3">No reward extra info in these batches.</p>
      ) : (
        <form
          className="space-y-2"
          onSubmit={(event) => {
            event.preventDefault()
            if (condition === null) return
            onAdd(condition)
            begin('')
          }}
        >
          <div className="grid grid-cols-2 gap-3">
            <Select
              label="Reward extra info"
              searchable
              value={key}
              options={keys.map(({ key, samples }) => ({
                value: key,
                note: formatCompact(samples),
              }))}
              placeholder={key || 'Select a key'}
              onChange={begin}
            />
            <Select
              label="Condition"
              value={kind}
              disabled={key === ''}
              options={[
                { value: 'number', label: 'Number in range' },
                { value: 'boolean', label: 'Boolean equals' },
                { value: 'text', label: 'Text equals' },
                { value: 'present', label: 'Is present' },
              ]}
              onChange={(kind) => {
                setChosen(kind)
                setFrom('')
                setTo('')
              }}
            />
          </div>
          {key !== '' && kind === 'number' && (
            <div className="grid grid-cols-2 gap-3">
              <TextField
                label="From"
                inputMode="decimal"
                placeholder={known?.min === null ? '' : String(known?.min ?? '')}
                value={from}
                onChange={(event) => setFrom(event.target.value)}
              />
              <TextField
                label="To"
                inputMode="decimal"
                placeholder={known?.max === null ? '' : String(known?.max ?? '')}
                value={to}
                onChange={(event) => setTo(event.target.value)}
              />
            </div>
          )}
          {key !== '' && kind === 'boolean' && (
            <Select
              label="Value"
              value={from || 'true'}
              options={['true', 'false']}
              onChange={setFrom}
            />
          )}
          {key !== '' && kind === 'text' && (
            <>
              <TextField
                label="Equals"
                mono
                list="extra-values"
                value={from}
                onChange={(event) => setFrom(event.target.value)}
              />
              <datalist id="extra-values">
                {known?.values.map(({ text }) => (
                  <option key={text} value={text} />
                ))}
              </datalist>
            </>
          )}
          <Button type="submit" small disabled={condition === null || full}>
            <Plus size={13} aria-hidden />
            Add condition
          </Button>
          {full && <p className="text-xs text-ink-3">At most eight conditions.</p>}
        </form>
      )}
    </fieldset>
  )
}

function usualKind(key: ExtraKeyDto | undefined): Kind {
  if (key === undefined) return 'number'
  const { numbers, booleans, texts } = key
  const most = Math.max(numbers, booleans, texts)
  if (most === 0) return 'present'
  return numbers === most ? 'number' : booleans === most ? 'boolean' : 'text'
}

function conditionOf(key: string, is: Kind, from: string, to: string): ExtraFilter | null {
  if (is === 'present') return { key, is }
  if (is === 'boolean') return { key, is, value: from !== 'false' }
  if (is === 'text') return { key, is, value: from }
  const [min, max] = [from, to].map((text) => (text.trim() === '' ? undefined : finiteOf(text)))
  if ((from.trim() !== '' && min === undefined) || (to.trim() !== '' && max === undefined))
    return null
  return {
    ...{ key, is },
    ...(min === undefined ? {} : { min }),
    ...(max === undefined ? {} : { max }),
  }
}
