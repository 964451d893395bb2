'use client'

import { useQuery } from '@tanstack/react-query'
import { Columns3, Group, X } from 'lucide-react'
import { useId, useState } from 'react'
import { RUN_STATUSES, type RunFacetsDto } from '../../server/contract/run-table.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { Choice } from '../samples/filter-fields.tsx'
import { Button, buttonClass } from '../ui/button.tsx'
import { ColumnsPopover, FindColumn } from '../ui/columns-popover.tsx'
import { Segmented } from '../ui/field.tsx'
import { FilterField } from '../ui/filter-field.tsx'
import { RUN_LOOK } from '../ui/status.tsx'
import {
  conditionText,
  EXTRA_COLUMNS,
  NO_RUN_FILTERS,
  parseCondition,
  type RunsUrl,
} from './runs-url.ts'

const NO_FACETS: RunFacetsDto = { tags: [], keys: [] }

export function RunsFilters({
  url,
  onChange,
  count,
}: {
  url: RunsUrl
  onChange(change: Partial<RunsUrl>): void
  /** The numbers of matching runs and of all runs; null until they are loaded. */
  count: { total: number; runs: number } | null
}) {
  const trpc = useTRPC()
  const facets =
    useQuery(
      trpc.runs.facets.queryOptions(undefined, { meta: { topics: ['runs'], minGapMs: 3_000 } }),
    ).data ?? NO_FACETS
  const isFiltered =
    url.named !== '' || url.tags.length > 0 || url.status !== null || url.where.length > 0
  return (
    <div className="flex flex-wrap items-center gap-2 border-b px-5 py-2">
      <FilterField label="Run name" value={url.named} onChange={(named) => onChange({ named })} />
      {(facets.tags.length > 0 || url.tags.length > 0) && (
        <Choice
          label="Tag"
          searchable
          all="All tags"
          value={null}
          options={facets.tags.map(({ tag }) => tag).filter((tag) => !url.tags.includes(tag))}
          counts={new Map(facets.tags.map(({ tag, runs }) => [tag, runs]))}
          onChange={(tag) => tag !== null && onChange({ tags: [...url.tags, tag] })}
          width="w-32"
        />
      )}
      <Segmented
        label="Status"
        value={url.status ?? 'all'}
        options={[
          { value: 'all', label: 'All' },
          ...RUN_STATUSES.map((status) => ({
            value: status,
            label: RUN_LOOK[status].text,
          })),
        ]}
        onChange={(status) => onChange({ status: status === 'all' ? null : status })}
      />
      {(facets.keys.length > 0 || url.where.length > 0) && (
        <ConditionField
          keys={facets.keys.map(({ key }) => key)}
          onAdd={(condition) => onChange({ where: [...url.where, condition] })}
        />
      )}
      {url.tags.map((tag) => (
        <Chip
          key={tag}
          text={tag}
          label={`Remove filter ${tag}`}
          onRemove={() => onChange({ tags: url.tags.filter((one) => one !== tag) })}
        />
      ))}
      {url.where.map((condition) => {
        const text = conditionText(condition)
        return (
          <Chip
            key={text}
            text={text}
            label={`Remove filter ${text}`}
            onRemove={() => onChange({ where: url.where.filter((one) => one !== condition) })}
          />
        )
      })}
      {isFiltered && (
        <>
          <span className="num text-xs text-ink-3" role="status">
            {count !== null && `${formatCount(count.total)} of ${formatCount(count.runs)}`}
          </span>
          <Button small variant="quiet" onClick={() => onChange(NO_RUN_FILTERS)}>
            Clear filters
          </Button>
        </>
      )}
      <span className="ml-auto flex items-center gap-2">
        {(facets.tags.length > 0 || url.byTag) && (
          <button
            type="button"
            aria-pressed={url.byTag}
            onClick={() => onChange({ byTag: !url.byTag })}
            className={`${buttonClass('plain', true)} aria-pressed:bg-hover`}
          >
            <Group size={14} aria-hidden />
            Group by tag
          </button>
        )}
        <RunColumnPicker url={url} keys={facets.keys} onChange={onChange} />
      </span>
    </div>
  )
}

function Chip({ text, label, onRemove }: { text: string; label: string; onRemove(): void }) {
  return (
    <button
      type="button"
      aria-label={label}
      onClick={onRemove}
      className="inline-flex h-7 max-w-64 items-center gap-1.5 rounded-md border border-accent bg-surface px-2 text-xs font-medium hover:bg-hover"
    >
      <span className="num truncate">{text}</span>
      <X size={12} className="shrink-0 text-ink-3" aria-hidden />
    </button>
  )
}

/** An input that adds a condition, such as `optimizer.lr < 1e-5`, on Enter. */
function ConditionField({
  keys,
  onAdd,
}: {
  keys: readonly string[]
  onAdd(condition: RunsUrl['where'][number]): void
}) {
  const id = useId()
  const [text, setText] = useState('')
  const [isWrong, setIsWrong] = useState(false)
  return (
    <span className="flex items-center gap-2">
      <input
        aria-label="Configuration filter"
        placeholder="lr < 1e-5"
        title="A key, an operator and a value; Enter adds the filter. Operators: = != < <= > >= and ~ (contains)."
        list={`${id}-keys`}
        autoComplete="off"
        spellCheck={false}
        value={text}
        aria-invalid={isWrong || undefined}
        aria-describedby={isWrong ? `${id}-error` : undefined}
        onChange={(event) => {
          setText(event.target.value)
          setIsWrong(false)
        }}
        onKeyDown={(event) => {
          if (event.key === 'Escape') setText('')
          if (event.key !== 'Enter' || text.trim() === '') return
          const condition = parseCondition(text, keys)
          setIsWrong(condition === null)
          if (condition === null) return
          onAdd(condition)
          setText('')
        }}
        className="num h-7 w-36 rounded-md border border-line-strong bg-surface px-2 text-xs placeholder:text-ink-3 aria-invalid:border-bad"
      />
      <datalist id={`${id}-keys`}>
        {keys.map((key) => (
          <option key={key} value={`${key} = `} />
        ))}
      </datalist>
      {isWrong && (
        <span id={`${id}-error`} role="alert" className="text-xs text-bad">
          For example: lr &lt; 1e-5
        </span>
      )}
    </span>
  )
}

function RunColumnPicker({
  url,
  keys,
  onChange,
}: {
  url: RunsUrl
  keys: RunFacetsDto['keys']
  onChange(change: Partial<RunsUrl>): void
}) {
  const [wanted, setWanted] = useState('')
  const choices = [
    ...Object.entries(EXTRA_COLUMNS).map(([name, label]) => ({ name, label, note: '' })),
    ...keys.map(({ key, values }) => ({
      name: `config.${key}`,
      label: key,
      note: plural(values, 'value'),
    })),
  ].filter(({ label }) => label.toLowerCase().includes(wanted.trim().toLowerCase()))
  return (
    <ColumnsPopover
      trigger={
        <button type="button" className={buttonClass('plain', true)}>
          <Columns3 size={14} aria-hidden />
          Columns
        </button>
      }
    >
      <div className="border-b px-2 py-2">
        <FindColumn value={wanted} onChange={setWanted} />
      </div>
      <ul className="min-h-16 overflow-y-auto py-1">
        {choices.map(({ name, label, note }) => (
          <li key={name}>
            <label className="flex h-7 items-center gap-2 rounded-md px-2 text-xs hover:bg-hover">
              <input
                type="checkbox"
                checked={url.columns.includes(name)}
                onChange={(event) =>
                  onChange({
                    columns: event.target.checked
                      ? [...url.columns, name]
                      : url.columns.filter((one) => one !== name),
                  })
                }
                className="size-3.5 shrink-0 accent-(--accent-fill)"
              />
              <span className="truncate" title={label}>
                {label}
              </span>
              <span className="num ml-auto shrink-0 text-ink-3">{note}</span>
            </label>
          </li>
        ))}
      </ul>
      {keys.length === 0 && (
        <p className="border-t px-2 py-2 text-xs text-ink-3">
          A trainer sends the configuration of a run with{' '}
          <code className="font-mono">runs.update</code>; its values become columns.
        </p>
      )}
    </ColumnsPopover>
  )
}
