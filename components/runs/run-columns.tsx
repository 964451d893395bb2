import type { ReactNode } from 'react'
import type { ConfigValue } from '../../server/contract/run-config.ts'
import { CHANGE_STEPS, type RunSort, type RunTableRowDto } from '../../server/contract/run-table.ts'
import { FailedCount, RunName } from '../batches/batch-cells.tsx'
import {
  formatCompact,
  formatCount,
  formatPercent,
  formatScore,
  quantityText,
} from '../format/numbers.ts'
import { Ago } from '../ui/ago.tsx'
import { configText, RunChange, RunCurve, RunState, TAG_CHIP } from './run-cells.tsx'
import { runSamplesHref } from './run-url.ts'
import { configKey, EXTRA_COLUMNS, type ExtraColumn, type RunsUrl } from './runs-url.ts'
import { SeededMark } from './seeded-mark.tsx'

export interface RunColumn {
  label: string
  title?: string
  /** The sort key of this column. Runs cannot be sorted by a column without a sort key. */
  sort?: RunsUrl['sort']
  start?: boolean
  className?: string
  cell(run: RunTableRowDto, onTag: (tag: string) => void): ReactNode
}

const DASH = <span className="text-ink-3">–</span>
const LAST_BATCHES = 'Only the last batch of each step counts. Rescored batches are excluded.'

const COLUMNS: readonly RunColumn[] = [
  {
    ...{ label: 'Run', sort: 'name', start: true, className: 'name' },
    cell: (run, onTag) => <NameCell run={run} onTag={onTag} />,
  },
  {
    ...{ label: 'Status', sort: 'activity', start: true },
    title:
      'Sorts by the last submitted batch. A run is stalled if it has pending samples, but no group has completed and no samples have arrived for 5 minutes.',
    cell: (run) => <RunState run={run} />,
  },
  {
    ...{ label: 'Reward', start: true },
    title: `Mean reward per step, as a curve. Each run has its own scale. ${LAST_BATCHES}`,
    cell: (run) => (
      <span className="block h-6 w-20 2xl:w-26">
        <RunCurve run={run.name} curve={run.curve} />
      </span>
    ),
  },
  {
    ...{ label: 'Latest mean reward', sort: 'mean' },
    title: `Mean reward of the last ended step. ${LAST_BATCHES}`,
    cell: (run) => <span className="num">{formatScore(run.mean)}</span>,
  },
  {
    ...{ label: 'Best mean reward', sort: 'best' },
    title: `Highest mean reward of a step. ${LAST_BATCHES}`,
    cell: ({ best }) => (
      <span className="num" title={best ? `Step ${formatCount(best.step)}` : undefined}>
        {formatScore(best?.mean)}
      </span>
    ),
  },
  {
    ...{ label: 'Change', sort: 'change' },
    title: `Change in the mean reward over the last ${CHANGE_STEPS} steps, from a linear trend, ± half the width of its 95 % confidence interval.`,
    cell: (run) => <RunChange change={run.change} />,
  },
  {
    ...{ label: 'Step', sort: 'step' },
    cell: (run) => <span className="num">{formatCount(run.lastStep)}</span>,
  },
  {
    ...{ label: 'Samples', sort: 'samples' },
    title: 'Samples in ended batches.',
    cell: (run) => <span className="num">{formatCompact(run.samples)}</span>,
  },
  {
    ...{ label: 'No-signal', sort: 'noSignal' },
    title:
      'Share of groups whose advantages are all zero, over all ended training batches. If a run has none, its validation batches count.',
    cell: ({ noSignal }) =>
      noSignal === null ? (
        DASH
      ) : (
        <span className="num">{quantityText(formatPercent(noSignal))}</span>
      ),
  },
  {
    ...{ label: 'Failed', sort: 'failed' },
    title: 'Failed samples. Sorts by their share.',
    cell: (run) => (
      <FailedCount failed={run.failed} href={runSamplesHref(run, { status: 'failed' })} />
    ),
  },
  {
    ...{ label: 'Reward version', sort: 'reward', start: true, className: 'max-w-36 2xl:max-w-44' },
    title:
      'The reward of the last batch, and a hash that changes if any part of the reward changes.',
    cell: ({ reward }) =>
      reward === null ? (
        DASH
      ) : (
        <span className="flex items-baseline gap-2" title={reward.name}>
          <span className="truncate text-ink-2">{reward.name}</span>
          <span className="font-mono text-2xs text-ink-3">{reward.version}</span>
        </span>
      ),
  },
]

const EXTRA: Record<ExtraColumn, Omit<RunColumn, 'label'>> = {
  created: {
    sort: 'created',
    cell: (run) => (
      <span className="text-ink-2">
        <Ago at={run.createdAt} />
      </span>
    ),
  },
  batches: { cell: (run) => <Count n={run.batches} /> },
  validation: { cell: (run) => <Count n={run.validationBatches} /> },
  rescored: { cell: (run) => <Count n={run.rescoredBatches} /> },
}

export function runColumns(optional: readonly string[]): RunColumn[] {
  return [
    ...COLUMNS,
    ...optional.flatMap((name): RunColumn[] => {
      const key = configKey(name)
      if (key !== null) return [configColumn(key)]
      return name in EXTRA
        ? [{ label: EXTRA_COLUMNS[name as ExtraColumn], ...EXTRA[name as ExtraColumn] }]
        : []
    }),
  ]
}

function configColumn(key: string): RunColumn {
  return {
    ...{ label: key, title: key, sort: `config.${key}`, className: 'max-w-48' },
    cell: ({ config }) => <ConfigCell value={config[key]} />,
  }
}

function NameCell({ run, onTag }: { run: RunTableRowDto; onTag(tag: string): void }) {
  const isVal = run.split === 'val'
  const hasMarks = run.tags.length > 0 || run.seeded || isVal
  return (
    <>
      <span className={`flex items-center gap-2 font-medium ${hasMarks ? 'pt-1' : ''}`}>
        <RunName run={run.name} />
      </span>
      {hasMarks && (
        <span className="flex items-center gap-1 overflow-hidden pb-1 pl-4">
          {isVal && (
            <span className={TAG_CHIP} title="No training batches, so figures cover validation.">
              Validation
            </span>
          )}
          {run.tags.map((tag) => (
            <button
              key={tag}
              type="button"
              title={`Filter by tag “${tag}”`}
              onClick={() => onTag(tag)}
              className={`${TAG_CHIP} hover:bg-hover hover:text-ink`}
            >
              {tag}
            </button>
          ))}
          {run.seeded && <SeededMark />}
        </span>
      )}
    </>
  )
}

function ConfigCell({ value }: { value: ConfigValue | undefined }) {
  if (value === undefined) return DASH
  const text = configText(value)
  return (
    <span className="num block truncate" title={text}>
      {text}
    </span>
  )
}

function Count({ n }: { n: number }) {
  return <span className={`num ${n === 0 ? 'text-ink-3' : ''}`}>{formatCount(n)}</span>
}

/** The initial sort order of a column: ascending for names, descending for figures. */
export function firstOrder(sort: RunSort | `config.${string}`): 'asc' | 'desc' {
  return sort === 'name' || sort === 'reward' ? 'asc' : 'desc'
}
