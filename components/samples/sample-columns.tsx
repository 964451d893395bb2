import type { ReactNode } from 'react'
import type { SampleRowDto } from '../../server/contract/pages.ts'
import { fieldOf, ROW_FIELDS, type RowFields } from '../../server/contract/sample-fields.ts'
import { SAMPLE_FAILURE_TEXT } from '../../server/contract/sample-reason.ts'
import { RunName, SourceName } from '../batches/batch-cells.tsx'
import { formatCount, formatDuration, formatScore } from '../format/numbers.ts'
import { shortenMiddle } from '../format/text.ts'
import { ServerName } from '../servers/server-cells.tsx'
import { Ago } from '../ui/ago.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { SampleStatusView } from '../ui/status.tsx'
import { WorkerName } from '../workers/worker-name.tsx'
import { FirstLine } from './first-line.tsx'
import type { ChosenColumn, SampleView } from './sample-filters.ts'

export interface SampleColumn {
  name: string
  label: string
  track: string
  end?: boolean
  cell(row: SampleRowDto): ReactNode
}

const FIXED: readonly SampleColumn[] = [
  {
    name: 'sample',
    label: 'Sample',
    track: 'minmax(100px,0.9fr)',
    cell: (row) => <span className="font-mono text-xs font-medium">{row.id}</span>,
  },
  {
    name: 'run',
    label: 'Run',
    track: 'minmax(110px,1.2fr)',
    cell: (row) => <RunName run={row.run} link={false} />,
  },
  {
    name: 'step',
    label: 'Step',
    track: '48px',
    end: true,
    cell: (row) => formatCount(row.step),
  },
  {
    name: 'prompt',
    label: 'Prompt',
    track: 'minmax(116px,2fr)',
    cell: (row) => <FirstLine id={row.id} of="prompt" />,
  },
  {
    name: 'response',
    label: 'Response',
    track: 'minmax(126px,3fr)',
    cell: (row) => <FirstLine id={row.id} of="response" />,
  },
  {
    name: 'group',
    label: 'Group',
    track: 'minmax(116px,1fr)',
    cell: (row) => (
      <span className="font-mono text-xs" title={row.uid}>
        {shortenMiddle(row.uid, 16)}
      </span>
    ),
  },
  {
    name: 'source',
    label: 'Data source',
    track: 'minmax(92px,1.2fr)',
    cell: (row) => <SourceName name={row.dataSource} />,
  },
  {
    name: 'status',
    label: 'Status',
    track: 'minmax(88px,0.9fr)',
    cell: (row) => <SampleState row={row} />,
  },
  {
    name: 'score',
    label: 'Score',
    track: '72px',
    end: true,
    cell: (row) => <ScoreCell row={row} />,
  },
  {
    name: 'verdict',
    label: 'Verdict',
    track: 'minmax(76px,0.9fr)',
    cell: (row) => <ShortText text={row.verdict} />,
  },
  {
    name: 'extracted',
    label: 'Extracted',
    track: 'minmax(72px,0.9fr)',
    cell: (row) => <ShortText text={row.extracted} mono />,
  },
  {
    name: 'raw',
    label: 'Raw score',
    track: '84px',
    end: true,
    cell: (row) => formatScore(row.rawScore),
  },
  ...ROW_FIELDS.map(fieldColumn),
  {
    name: 'queue',
    label: 'Queue',
    track: '78px',
    end: true,
    cell: (row) => <Quantity of={formatDuration(row.queueMs)} />,
  },
  {
    name: 'scoring',
    label: 'Scoring',
    track: '78px',
    end: true,
    cell: (row) => <Quantity of={formatDuration(row.scoreMs)} />,
  },
  {
    name: 'attempts',
    label: 'Attempts',
    track: '72px',
    end: true,
    cell: (row) => (
      <span className={row.attempts > 1 ? 'text-warn' : row.attempts === 0 ? 'text-ink-3' : ''}>
        {formatCount(row.attempts)}
      </span>
    ),
  },
  {
    name: 'server',
    label: 'Server',
    track: 'minmax(104px,0.9fr)',
    cell: (row) =>
      row.serverName === null ? (
        <span className="text-ink-3">–</span>
      ) : (
        <ServerName name={row.serverName} />
      ),
  },
  {
    name: 'worker',
    label: 'Worker',
    track: 'minmax(70px,0.6fr)',
    cell: (row) => (row.workerId === null ? '–' : <WorkerName id={row.workerId} />),
  },
  {
    name: 'labels',
    label: 'Labels',
    track: 'minmax(96px,0.9fr)',
    cell: (row) => <Labels labels={row.labels} />,
  },
  {
    name: 'ended',
    label: 'Ended',
    track: '80px',
    end: true,
    cell: (row) => (
      <span className="text-ink-2">
        <Ago at={row.endedAt} />
      </span>
    ),
  },
]

/** The prefix of column names for reward extra info keys. */
export const EXTRA_PREFIX = 'rewardExtraInfo.'

export function columnChoices(extraKeys: readonly string[]): SampleColumn[] {
  return [...FIXED, ...extraKeys.map(extraColumn)]
}

function fieldColumn(field: keyof RowFields): SampleColumn {
  const { tableColumn: name = field, label, unit = '', type } = fieldOf(field)
  const isText = type === 'text'
  return {
    ...{ name, label, track: isText ? 'minmax(76px,0.9fr)' : '84px', end: !isText },
    cell: (row) => {
      const value: number | string | null = row[field]
      if (value === null) return '–'
      if (typeof value === 'string') return <ShortText text={value} />
      return <Quantity of={{ value: formatCount(value), unit }} />
    },
  }
}

function extraColumn(key: string): SampleColumn {
  return {
    name: EXTRA_PREFIX + key,
    label: key,
    track: 'minmax(80px,0.8fr)',
    cell: (row) => <ExtraValue value={row.rewardExtraInfo[key]} />,
  }
}

function ShortText({ text, mono = false }: { text: string | null; mono?: boolean }) {
  if (text === null) return <span className="text-ink-3">–</span>
  return (
    <span className={`block truncate ${mono ? 'font-mono text-xs' : ''}`} title={text}>
      {text}
    </span>
  )
}

function ExtraValue({ value }: { value: unknown }) {
  if (value === undefined || value === null) return <span className="text-ink-3">–</span>
  if (typeof value === 'number') return <span>{formatScore(value)}</span>
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return (
    <span className="block truncate font-mono text-xs" title={text.slice(0, 2_000)}>
      {text.slice(0, 200)}
    </span>
  )
}

/**
 * The default columns. A column that a filter fixes to one value is omitted. All default columns fit into a window of
 * 1,440 px.
 */
function defaultColumns({ filter }: Pick<SampleView, 'filter'>, narrow: boolean): string[] {
  const labels = filter.label !== undefined || filter.annotated === true ? ['labels'] : []
  const extras = (filter.extra ?? []).map(({ key }) => EXTRA_PREFIX + key)
  if (narrow) {
    return ['sample', 'score', 'response', 'extracted', 'status', ...labels, ...extras]
  }
  const one = filter.batch !== undefined
  const oneStep = filter.step !== undefined && filter.stepTo === undefined
  return [
    'sample',
    ...(one || filter.run !== undefined ? [] : ['run']),
    ...(one || oneStep ? [] : ['step']),
    'prompt',
    'response',
    'extracted',
    'status',
    'score',
    'verdict',
    ...labels,
    ...extras,
    'source',
    'ended',
  ]
}

/**
 * The columns to draw. The sample ID comes first, at its default width unless it is resized. Unknown names are ignored.
 */
export function chosenColumns(
  view: Pick<SampleView, 'filter' | 'columns'>,
  extraKeys: readonly string[],
  narrow = false,
): SampleColumn[] {
  const chosen: readonly ChosenColumn[] =
    view.columns ?? defaultColumns(view, narrow).map((name) => ({ name, px: null }))
  const width = new Map(chosen.map(({ name, px }) => [name, px]))
  const choices = new Map(columnChoices(extraKeys).map((column) => [column.name, column]))
  return [...new Set(['sample', ...chosen.map(({ name }) => name)])].flatMap((name) => {
    const column =
      choices.get(name) ??
      (name.startsWith(EXTRA_PREFIX) ? extraColumn(name.slice(EXTRA_PREFIX.length)) : undefined)
    if (column === undefined) return []
    const px = width.get(name) ?? null
    return [px === null ? column : { ...column, track: `${px}px` }]
  })
}

export const SELECT_PX = 16
const GAP_PX = 16
const SIDES_PX = 40

/** The minimum width of a table with these grid tracks, px. In a narrower container the table scrolls sideways. */
export function leastTablePx(tracks: readonly string[]): number {
  return tracks.reduce(
    (sum, track) => sum + Number(/\d+/.exec(track)?.[0]) + GAP_PX,
    SIDES_PX + SELECT_PX,
  )
}

export function Labels({ labels }: { labels: readonly string[] }) {
  if (labels.length === 0) return <span className="text-ink-3">–</span>
  return (
    <span className="flex items-center gap-1" title={labels.join(', ')}>
      {labels.slice(0, 3).map((label) => (
        <span key={label} className={LABEL_CHIP}>
          {label}
        </span>
      ))}
      {labels.length > 3 && <span className="text-xs text-ink-3">+{labels.length - 3}</span>}
    </span>
  )
}

export const LABEL_CHIP =
  'inline-block max-w-32 truncate rounded-sm border border-line-strong bg-sunken px-1.5 text-2xs leading-[18px] text-ink-2'

function SampleState({ row }: { row: SampleRowDto }) {
  if (row.status !== 'failed' || row.reason === null)
    return <SampleStatusView status={row.status} />
  return (
    <span className="flex items-center gap-1.5 text-bad" title={SAMPLE_FAILURE_TEXT[row.reason]}>
      <span className="hatch inline-block size-2.5 shrink-0 rounded-[2px]" aria-hidden />
      <span className="truncate">
        <span className="sr-only">Failed: </span>
        {row.reason}
      </span>
    </span>
  )
}

export function ScoreCell({ row }: { row: Pick<SampleRowDto, 'score' | 'substituted'> }) {
  return row.substituted ? (
    <span className="text-warn" title="Substituted by the failure policy of the batch, not scored">
      {formatScore(row.score)}*
    </span>
  ) : (
    <span className={row.score === null ? 'text-ink-3' : 'font-medium'}>
      {formatScore(row.score)}
    </span>
  )
}
