'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type {
  BreakdownDto,
  ChangePartDto,
  ChangesDto,
  ContributionDto,
} from '../../server/contract/changes.ts'
import { DIMENSIONS, type Dimension, OTHERS } from '../../server/contract/changes.ts'
import type { RunDto } from '../../server/contract/runs.ts'
import { type SampleFilter, writeSampleFilter } from '../../server/contract/sample-filter.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, formatScore, formatSigned, percentText } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { promptHref } from '../prompts/prompts-url.ts'
import { Choice, TypedFilter } from '../samples/filter-fields.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Segmented } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { chosenText, excludedTexts } from './change-words.ts'
import {
  againstBefore,
  partFilter,
  type RunUrl,
  rangeOfText,
  rangeProblem,
  rangeText,
  runSamplesHref,
  type StepRange,
} from './run-url.ts'

const DIMENSION_LABEL: Record<Dimension, string> = {
  outcome: 'Outcome',
  dataSource: 'Data source',
  component: 'Component',
  prompt: 'Prompt',
}

export function RunChanges({
  run,
  url,
  onChange,
}: {
  run: RunDto
  url: RunUrl
  onChange(change: Partial<RunUrl>): void
}) {
  const trpc = useTRPC()
  const { before, after, source } = url
  const isComparable = run.steps.filter(({ mean, n }) => n !== null && mean !== null).length > 1
  const changes = useQuery(
    trpc.runs.changes.queryOptions(
      {
        ...{ name: run.name, split: run.split },
        ...(before && after ? { before, after } : {}),
        ...(source === null ? {} : { dataSource: source }),
      },
      {
        meta: { topics: ['batches'], minGapMs: 2_000 },
        enabled: isComparable,
        placeholderData: keepPreviousData,
      },
    ),
  )
  if (!isComparable) return null
  const shown = changes.data
  const ranges = {
    before: before ?? shown?.before ?? null,
    after: after ?? shown?.after ?? null,
  }
  const zoomComparison = url.zoom && againstBefore(run, url.zoom)
  const range = (name: 'before' | 'after', label: string) => (
    <TypedFilter
      label={`${label} steps`}
      placeholder={label}
      value={ranges[name] === null ? null : rangeText(ranges[name])}
      width="w-20"
      problemOf={rangeProblem}
      onCommit={(text) => {
        const typed = rangeOfText(text)
        if (typed !== null) onChange({ ...ranges, [name]: typed, dimension: null })
      }}
    />
  )
  return (
    <Section
      title="Reward change"
      id="changes"
      note={shown && noteOf(shown)}
      className="border-t"
      actions={
        <>
          <span className="flex flex-wrap items-center gap-1.5 text-xs text-ink-3">
            {range('before', 'Before')}
            against
            {range('after', 'After')}
          </span>
          {shown && (shown.dataSources.length > 1 || source !== null) && (
            <Choice
              label="Data source"
              searchable
              all="All sources"
              value={source}
              options={shown.dataSources}
              onChange={(source) => onChange({ source })}
              width="w-36"
            />
          )}
          {zoomComparison !== null && (
            <Button small variant="quiet" onClick={() => onChange(zoomComparison)}>
              Compare zoomed steps
            </Button>
          )}
          {(before !== null || source !== null) && (
            <Button
              small
              variant="quiet"
              onClick={() => onChange({ before: null, after: null, dimension: null, source: null })}
            >
              Show largest change
            </Button>
          )}
        </>
      }
    >
      <QueryView query={changes} skeleton={<TableSkeleton columns={5} rows={4} />}>
        {(data) => <Loaded run={run} data={data} url={url} onChange={onChange} />}
      </QueryView>
    </Section>
  )
}

function noteOf({ before, after, unit }: ChangesDto): string {
  const n = (side: ChangesDto['before']) => formatCount(side.samples)
  return `n = ${n(before)} and ${n(after)}; 95 % confidence intervals over ${unit === 'group' ? 'groups' : 'steps'}`
}

function Loaded({
  run,
  data,
  url,
  onChange,
}: {
  run: RunDto
  data: ChangesDto
  url: RunUrl
  onChange(change: Partial<RunUrl>): void
}) {
  const given = data.breakdowns.filter(({ missing }) => missing === null)
  const wanted = url.dimension ?? data.standsOut?.dimension ?? 'outcome'
  const dimension = given.find((one) => one.dimension === wanted) ?? given[0]
  if (data.change === null || dimension === undefined) {
    return <p className="px-5 pb-4 text-ink-3">One of the ranges has no scored samples.</p>
  }
  return (
    <div className="pb-3">
      <div className="flex flex-wrap items-baseline gap-x-4 gap-y-1 px-5 pb-2">
        <p className="num" data-change={data.change.value}>
          <Headline data={data} /> {chosenText(data)}
        </p>
        <span className="ml-auto flex items-center gap-3 text-xs">
          <BatchLinks label="Before" ids={data.before.batchIds} />
          <BatchLinks label="After" ids={data.after.batchIds} />
        </span>
      </div>
      <SuddenChanges data={data} onChange={onChange} />
      <div className="px-5 pb-1">
        <Segmented
          label="Split change by"
          value={dimension.dimension}
          options={DIMENSIONS.filter((name) => given.some((one) => one.dimension === name)).map(
            (name) => ({
              ...{ value: name, label: DIMENSION_LABEL[name] },
            }),
          )}
          onChange={(dimension) => onChange({ dimension })}
        />
      </div>
      <Parts run={run} data={data} source={url.source} dimension={dimension} change={data.change} />
      {dimension.dimension === 'prompt' && <Prompts run={run} data={data} />}
      <Beside data={data} />
    </div>
  )
}

function SuddenChanges({
  data: { suddenChanges, before, after },
  onChange,
}: {
  data: ChangesDto
  onChange(change: Partial<RunUrl>): void
}) {
  const isShown = (one: ChangesDto['suddenChanges'][number]) =>
    rangeText(one.before) === rangeText(before) && rangeText(one.after) === rangeText(after)
  if (suddenChanges.every(isShown)) return null
  return (
    <div className="flex flex-wrap items-center gap-1.5 px-5 pb-2 text-xs text-ink-3">
      Sudden changes
      {suddenChanges.map((one) => (
        <Button
          key={one.after.from}
          small
          variant="quiet"
          className="num aria-pressed:bg-selected aria-pressed:text-ink"
          aria-pressed={isShown(one)}
          title={`Compare steps ${rangeText(one.before)} with ${rangeText(one.after)}`}
          onClick={() => onChange({ before: one.before, after: one.after, dimension: null })}
        >
          Step {formatCount(one.after.from)} <b>{formatSigned(one.change)}</b>
        </Button>
      ))}
    </div>
  )
}

function Headline({ data }: { data: ChangesDto }) {
  const { change, standsOut, before, after } = data
  if (change === null) return null
  const moved = (
    <>
      Mean {formatScore(before.mean)} → {formatScore(after.mean)}:{' '}
      <b className="font-semibold">{formatSigned(change.value)}</b> {intervalText(change)}.
    </>
  )
  if (standsOut === null) return moved
  const dimension = data.breakdowns.find((one) => one.dimension === standsOut.dimension)
  const part = dimension?.parts.find(({ key }) => key === standsOut.key)
  if (dimension === undefined || part === undefined) return moved
  const share = (side: ChangePartDto['before']) => percentText(side.share)
  const name = <b className="font-semibold">{partLabel(dimension.dimension, part.key)}</b>
  if (standsOut.by === 'mix') {
    return (
      <>
        {moved} The <b className="font-semibold">mix of data sources</b> explains{' '}
        {formatSigned(dimension.mix.value)}.
      </>
    )
  }
  if (dimension.dimension === 'component' || standsOut.by === 'within') {
    const contribution = standsOut.by === 'within' ? part.within : part.total
    return (
      <>
        {moved} The mean of {name} went from {formatScore(part.before.mean)} to{' '}
        {formatScore(part.after.mean)}, which explains {formatSigned(contribution.value)}.
      </>
    )
  }
  return (
    <>
      {moved} {name} went from {share(part.before)} to {share(part.after)} of the samples, which
      explains {formatSigned(part.total.value)}.
    </>
  )
}

function BatchLinks({ label, ids }: { label: string; ids: readonly string[] }) {
  const shown = ids.slice(0, 3)
  return (
    <span className="flex items-center gap-1.5 text-ink-3">
      {label}
      {shown.map((id) => (
        <PageLink
          key={id}
          href={`/batches/${id}`}
          className="font-mono text-accent hover:underline"
        >
          {id}
        </PageLink>
      ))}
      {ids.length > shown.length && `+${ids.length - shown.length}`}
    </span>
  )
}

function Parts({
  run,
  data,
  source,
  dimension,
  change,
}: {
  run: RunDto
  data: ChangesDto
  source: string | null
  dimension: BreakdownDto
  change: ContributionDto
}) {
  const isComponent = dimension.dimension === 'component'
  const { standsOut } = data
  const isNamed = (key: string) =>
    standsOut?.dimension === dimension.dimension && standsOut.key === key && standsOut.by !== 'mix'
  const widest = Math.max(...dimension.parts.map(({ total }) => Math.abs(total.value)), 1e-12)
  const share = ({ share }: ChangePartDto['before']) =>
    isComponent ? formatScore(share) : percentText(share)
  const shareHead = isComponent ? 'Weight' : 'Sample share'
  return (
    <Scroll label="Contributions to the change">
      <table className="grid-table" data-dimension={dimension.dimension}>
        <ColumnHeads
          columns={[
            DIMENSION_LABEL[dimension.dimension],
            { end: `${shareHead} before` },
            { end: `${shareHead} after` },
            { end: 'Mean before' },
            { end: 'Mean after' },
            {
              end: `By ${shareHead.toLowerCase()}`,
              title: `Part of the change due to the changed ${shareHead.toLowerCase()}`,
            },
            { end: 'By mean', title: 'Part of the change due to the changed mean' },
            {
              end: 'Contribution',
              title: 'Sum of the two preceding columns. All contributions add up to the change.',
            },
            '',
            'Samples',
          ]}
        />
        <tbody>
          {dimension.parts.map((part) => (
            <tr
              key={part.key}
              data-part={part.key}
              className={isNamed(part.key) ? 'bg-selected' : ''}
            >
              <td className="max-w-72 truncate" title={partHint(dimension.dimension, part.key)}>
                {partLabel(dimension.dimension, part.key)}
              </td>
              <td className="num end">{share(part.before)}</td>
              <td className="num end">{share(part.after)}</td>
              <td className="num end">{formatScore(part.before.mean)}</td>
              <td className="num end">{formatScore(part.after.mean)}</td>
              <td className="num end text-ink-2">{formatSigned(part.mix.value)}</td>
              <td className="num end text-ink-2">{formatSigned(part.within.value)}</td>
              <td className="num end font-medium" title={intervalText(part.total)}>
                {formatSigned(part.total.value)}
              </td>
              <td className="w-40">
                <Bar value={part.total.value / widest} />
              </td>
              <td>
                <SampleLinks
                  run={run}
                  data={data}
                  filter={partFilter(dimension.dimension, part.key, source)}
                />
              </td>
            </tr>
          ))}
          <tr className="text-ink-2">
            <td>Change</td>
            <td colSpan={4} />
            <td className="num end">{formatSigned(dimension.mix.value)}</td>
            <td className="num end">
              {formatSigned(dimension.parts.reduce((sum, { within }) => sum + within.value, 0))}
            </td>
            <td className="num end font-medium" title={intervalText(change)}>
              {formatSigned(change.value)}
            </td>
            <td colSpan={2} />
          </tr>
        </tbody>
      </table>
    </Scroll>
  )
}

function Bar({ value }: { value: number }) {
  const width = `${Math.min(50, Math.abs(value) * 50)}%`
  return (
    <span className="relative block h-2.5" aria-hidden>
      <span className="absolute inset-y-0 left-1/2 w-px bg-line-strong" />
      <span
        className={`absolute inset-y-0 rounded-[2px] ${value < 0 ? 'bg-bad' : 'bg-ok'}`}
        style={value < 0 ? { right: '50%', width } : { left: '50%', width }}
      />
    </span>
  )
}

function SampleLinks({
  run,
  data,
  filter,
}: {
  run: RunDto
  data: ChangesDto
  filter: SampleFilter | null
}) {
  if (filter === null) return <span className="text-ink-3">–</span>
  return (
    <span className="flex gap-2 text-xs">
      {(['before', 'after'] as const).map((side) => (
        <PageLink
          key={side}
          href={runSamplesHref(run, { ...stepsFilter(data[side]), ...filter })}
          className="text-accent hover:underline"
        >
          {capitalized(side)}
        </PageLink>
      ))}
    </span>
  )
}

function stepsFilter({ from, to }: StepRange): SampleFilter {
  return from === to ? { step: from } : { step: from, stepTo: to }
}

const PROMPT_LABEL: Record<string, string> = {
  both: 'In both ranges',
  before: 'Only before',
  after: 'Only after',
  none: 'Without prompt',
}

function partLabel(dimension: Dimension, key: string): string {
  if (dimension === 'prompt') return PROMPT_LABEL[key] ?? key
  if (key === '') return dimension === 'outcome' ? 'No verdict' : 'All'
  return key
}

function partHint(dimension: Dimension, key: string): string {
  if (key === OTHERS) return 'All others combined'
  if (key === '') return 'Scored samples without a verdict'
  if (dimension === 'outcome') return `Scored samples with the verdict “${key}”`
  return partLabel(dimension, key)
}

function Prompts({ run, data }: { run: RunDto; data: ChangesDto }) {
  if (data.prompts.length === 0) return null
  return (
    <Scroll label="Prompts that changed most">
      <table className="grid-table">
        <ColumnHeads
          columns={[
            'Prompt',
            { end: 'Before' },
            { end: 'After' },
            { end: 'Contribution' },
            'Samples',
          ]}
        />
        <tbody>
          {data.prompts.map(({ key, batchId, uid, before, after, contribution }) => (
            <tr key={key}>
              <td>
                <PageLink
                  href={promptHref(run.name, run.split, key)}
                  className="font-mono text-xs text-accent hover:underline"
                >
                  {uid}
                </PageLink>
              </td>
              <td className="num end">{formatScore(before)}</td>
              <td className="num end">{formatScore(after)}</td>
              <td className="num end">{formatSigned(contribution)}</td>
              <td className="text-xs">
                <PageLink
                  href={`/samples?${writeSampleFilter({ batch: batchId, uid })}`}
                  className="text-accent hover:underline"
                >
                  After
                </PageLink>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

function Beside({ data }: { data: ChangesDto }) {
  const { before, after, rewardChanged } = data
  const notes = [
    ...(rewardChanged ? ['the reward changed within or between the ranges'] : []),
    ...excludedTexts(data),
    ...(before.meanLength !== null && after.meanLength !== null
      ? [
          `response length ${formatCount(Math.round(before.meanLength))} → ${formatCount(Math.round(after.meanLength))} tokens` +
            (after.lengthCorrelation === null
              ? ''
              : `, correlation with the score ${formatScore(before.lengthCorrelation)} → ${formatScore(after.lengthCorrelation)}`),
        ]
      : []),
  ]
  if (notes.length === 0) return null
  return <p className="num px-5 pt-2 text-xs text-ink-3">Also: {notes.join(' · ')}</p>
}

function intervalText({ low, high }: ContributionDto): string {
  return low === null || high === null ? '' : `[${formatSigned(low)} … ${formatSigned(high)}]`
}
