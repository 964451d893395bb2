'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type {
  ChangePartDto,
  ChangesDto,
  ContributionDto,
  LensDto,
} from '../../server/contract/changes.ts'
import { LENSES, type Lens } from '../../server/contract/changes.ts'
import type { RunDto } from '../../server/contract/runs.ts'
import { type SampleFilter, writeSampleFilter } from '../../server/contract/sample-filter.ts'
import type { SampleFailureReason } from '../../server/contract/sample-reason.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatCount, formatPercent, formatScore, plural, quantityText } from '../format/numbers.ts'
import { Choice, TypedFilter } from '../samples/filter-fields.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Segmented } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { type RunUrl, rangeOfText, rangeText, type StepRange } from './run-url.ts'

const LENS_LABEL: Record<Lens, string> = {
  outcome: 'Outcome',
  dataSource: 'Data source',
  component: 'Component',
  prompt: 'Prompt',
}

/** What changed between two ranges of steps, split by outcome, data source, component and prompt. */
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
      { meta: { topics: ['batches'] }, enabled: isComparable, placeholderData: keepPreviousData },
    ),
  )
  if (!isComparable) return null
  const shown = changes.data
  const ranges = {
    before: before ?? (shown ? rangeOf(shown.before) : null),
    after: after ?? (shown ? rangeOf(shown.after) : null),
  }
  const range = (name: 'before' | 'after', label: string) => (
    <TypedFilter
      label={`${label} steps`}
      placeholder={label}
      value={ranges[name] === null ? null : rangeText(ranges[name])}
      width="w-20"
      onCommit={(text) => {
        const typed = rangeOfText(text)
        if (typed !== null) onChange({ ...ranges, [name]: typed, lens: null })
      }}
    />
  )
  return (
    <Section
      title="What changed"
      id="changes"
      note={shown && noteOf(shown)}
      className="border-t"
      actions={
        <>
          <span className="flex items-center gap-1.5 text-xs text-ink-3">
            {range('before', 'Before')}
            against
            {range('after', 'After')}
          </span>
          {shown && (shown.dataSources.length > 1 || source !== null) && (
            <Choice
              label="Data source"
              all="All sources"
              value={source}
              options={shown.dataSources}
              onChange={(source) => onChange({ source })}
              width="w-36"
            />
          )}
          {url.zoom !== null && (
            <Button
              small
              variant="quiet"
              onClick={() => onChange({ ...aroundZoom(run, url.zoom as StepRange), lens: null })}
            >
              Compare zoomed steps
            </Button>
          )}
          {(before !== null || source !== null) && (
            <Button
              small
              variant="quiet"
              onClick={() => onChange({ before: null, after: null, lens: null, source: null })}
            >
              Largest change
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

/** The zoomed steps against as many before them. */
function aroundZoom({ steps }: RunDto, { from, to }: StepRange): Partial<RunUrl> {
  const inside = steps.filter(({ step }) => step >= from && step <= to)
  const earlier = steps.filter(({ step }) => step < from).slice(-inside.length)
  const [first, last] = [earlier[0]?.step, earlier.at(-1)?.step]
  if (first === undefined || last === undefined) return {}
  return { before: { from: first, to: last }, after: { from, to } }
}

function rangeOf({ from, to }: ChangesDto['before']): StepRange {
  return { from, to }
}

function noteOf({ before, after, unit }: ChangesDto): string {
  const n = (side: ChangesDto['before']) => formatCount(side.samples)
  return `n = ${n(before)} and ${n(after)}; 95 % intervals over ${unit === 'group' ? 'groups' : 'steps'}`
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
  const given = data.lenses.filter(({ missing }) => missing === null)
  const wanted = url.lens ?? data.standsOut?.lens ?? 'outcome'
  const lens = given.find((one) => one.lens === wanted) ?? given[0]
  if (data.change === null || lens === undefined) {
    return <p className="px-5 pb-4 text-ink-3">One of the ranges has no scored samples.</p>
  }
  return (
    <div className="pb-3">
      <div className="flex flex-wrap items-baseline gap-x-4 gap-y-1 px-5 pb-2">
        <p className="num" data-change={data.change.value}>
          <Headline run={run} data={data} />
        </p>
        <span className="ml-auto flex items-center gap-3 text-xs">
          <BatchLinks label="Before" ids={data.before.batchIds} />
          <BatchLinks label="After" ids={data.after.batchIds} />
        </span>
      </div>
      <div className="px-5 pb-1">
        <Segmented
          label="Split change by"
          value={lens.lens}
          options={LENSES.filter((name) => given.some((one) => one.lens === name)).map((name) => ({
            ...{ value: name, label: LENS_LABEL[name] },
          }))}
          onChange={(lens) => onChange({ lens })}
        />
      </div>
      <Parts run={run} data={data} lens={lens} change={data.change} />
      {lens.lens === 'prompt' && <Prompts data={data} />}
      <Beside data={data} />
    </div>
  )
}

/** The change, and what explains most of it, in one sentence. */
function Headline({ run, data }: { run: RunDto; data: ChangesDto }) {
  const { change, chosen, standsOut, before, after } = data
  if (change === null) return null
  const moved = (
    <>
      Mean {formatScore(before.mean)} → {formatScore(after.mean)}:{' '}
      <b className="font-semibold">{signed(change.value)}</b> {intervalText(change)}.
    </>
  )
  if (standsOut === null) {
    return (
      <>
        {moved}{' '}
        {chosen === 'latest'
          ? `Nothing stands out: no step of ${plural(run.steps.length, 'step')} differs from its neighbors by more than the usual variation. The newest steps are shown.`
          : 'Nothing stands out: no part explains half of the change.'}
      </>
    )
  }
  const lens = data.lenses.find((one) => one.lens === standsOut.lens)
  const part = lens?.parts.find(({ key }) => key === standsOut.key)
  if (lens === undefined || part === undefined) return moved
  const share = (side: ChangePartDto['before']) => quantityText(formatPercent(side.share))
  const name = <b className="font-semibold">{partLabel(lens.lens, part.key)}</b>
  if (standsOut.by === 'mix') {
    return (
      <>
        {moved} The <b className="font-semibold">mix of data sources</b> explains{' '}
        {signed(lens.mix.value)}.
      </>
    )
  }
  if (lens.lens === 'component' || standsOut.by === 'within') {
    const contribution = standsOut.by === 'within' ? part.within : part.total
    return (
      <>
        {moved} {name} went from {formatScore(part.before.mean)} to {formatScore(part.after.mean)},
        which explains {signed(contribution.value)}.
      </>
    )
  }
  return (
    <>
      {moved} {name} went from {share(part.before)} to {share(part.after)} of the samples, which
      explains {signed(part.total.value)}.
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
  lens,
  change,
}: {
  run: RunDto
  data: ChangesDto
  lens: LensDto
  change: ContributionDto
}) {
  const isComponent = lens.lens === 'component'
  const { standsOut } = data
  const isNamed = (key: string) =>
    standsOut?.lens === lens.lens && standsOut.key === key && standsOut.by !== 'mix'
  const widest = Math.max(...lens.parts.map(({ total }) => Math.abs(total.value)), 1e-12)
  const share = ({ share }: ChangePartDto['before']) =>
    isComponent ? formatScore(share) : quantityText(formatPercent(share))
  const shareHead = isComponent ? 'Weight' : 'Share'
  return (
    <Scroll label="Parts of the change">
      <table className="grid-table" data-lens={lens.lens}>
        <ColumnHeads
          columns={[
            LENS_LABEL[lens.lens],
            { end: `${shareHead} before` },
            { end: `${shareHead} after` },
            { end: 'Mean before' },
            { end: 'Mean after' },
            { end: `By ${shareHead.toLowerCase()}` },
            { end: 'By mean' },
            { end: 'Contribution' },
            '',
            'Samples',
          ]}
        />
        <tbody>
          {lens.parts.map((part) => (
            <tr
              key={part.key}
              data-part={part.key}
              className={isNamed(part.key) ? 'bg-selected' : ''}
            >
              <td className="max-w-72 truncate" title={partHint(lens.lens, part.key)}>
                {partLabel(lens.lens, part.key)}
              </td>
              <td className="num end">{share(part.before)}</td>
              <td className="num end">{share(part.after)}</td>
              <td className="num end">{formatScore(part.before.mean)}</td>
              <td className="num end">{formatScore(part.after.mean)}</td>
              <td className="num end text-ink-2">{signed(part.mix.value)}</td>
              <td className="num end text-ink-2">{signed(part.within.value)}</td>
              <td className="num end font-medium" title={intervalText(part.total)}>
                {signed(part.total.value)}
              </td>
              <td className="w-40">
                <Bar value={part.total.value / widest} />
              </td>
              <td>
                <SampleLinks run={run} data={data} lens={lens.lens} part={part.key} />
              </td>
            </tr>
          ))}
          <tr className="text-ink-2">
            <td>Change</td>
            <td colSpan={4} />
            <td className="num end">{signed(lens.mix.value)}</td>
            <td className="num end">{signed(change.value - lens.mix.value)}</td>
            <td className="num end font-medium" title={intervalText(change)}>
              {signed(change.value)}
            </td>
            <td colSpan={2} />
          </tr>
        </tbody>
      </table>
    </Scroll>
  )
}

/** A contribution as a bar from the middle: losses to the left, gains to the right. */
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

/** Links to the samples of a part, before and after. */
function SampleLinks({
  run,
  data,
  lens,
  part,
}: {
  run: RunDto
  data: ChangesDto
  lens: Lens
  part: string
}) {
  const filter = filterOf(lens, part)
  if (filter === null) return <span className="text-ink-3">–</span>
  return (
    <span className="flex gap-2 text-xs">
      {(['before', 'after'] as const).map((side) => (
        <PageLink
          key={side}
          href={samplesHref(run, data[side], filter)}
          className="text-accent hover:underline"
        >
          {side}
        </PageLink>
      ))}
    </span>
  )
}

function samplesHref(
  { name, split }: Pick<RunDto, 'name' | 'split'>,
  { from, to }: { from: number; to: number },
  filter: SampleFilter,
): string {
  const steps = from === to ? { step: from } : { step: from, stepTo: to }
  return `/samples?${writeSampleFilter({ run: name, split, rescored: false, ...steps, ...filter })}`
}

/** The filter of a part's samples; null: no filter selects them. */
function filterOf(lens: Lens, key: string): SampleFilter | null {
  if (lens === 'component') return {}
  if (lens === 'prompt' || key === '' || key === OTHERS) return null
  return lens === 'outcome' ? { verdict: key } : { dataSource: key, status: 'scored' }
}

/** The key of parts that are not listed one by one. */
const OTHERS = '(others)'

const PROMPT_LABEL: Record<string, string> = {
  both: 'Prompts of both',
  before: 'Prompts only before',
  after: 'Prompts only after',
  none: 'Without prompt',
}

function partLabel(lens: Lens, key: string): string {
  if (lens === 'prompt') return PROMPT_LABEL[key] ?? key
  if (key === '') return lens === 'outcome' ? 'No verdict' : 'All'
  return key
}

function partHint(lens: Lens, key: string): string {
  if (key === OTHERS) return 'The less frequent ones together'
  if (lens === 'outcome') return `Scored samples with the verdict “${key}”`
  return partLabel(lens, key)
}

/** The prompts of both ranges that changed most. */
function Prompts({ data }: { data: ChangesDto }) {
  if (data.prompts.length === 0) return null
  return (
    <Scroll label="Prompts that changed most">
      <table className="grid-table">
        <ColumnHeads
          columns={['Prompt', { end: 'Before' }, { end: 'After' }, { end: 'Contribution' }]}
        />
        <tbody>
          {data.prompts.map(({ batchId, uid, before, after, contribution }) => (
            <tr key={`${batchId} ${uid}`}>
              <td>
                <PageLink
                  href={`/samples?${writeSampleFilter({ batch: batchId, uid })}`}
                  className="font-mono text-xs text-accent hover:underline"
                >
                  {uid}
                </PageLink>
              </td>
              <td className="num end">{formatScore(before)}</td>
              <td className="num end">{formatScore(after)}</td>
              <td className="num end">{signed(contribution)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

/** What stands beside the mean: failed samples, length, another reward. */
function Beside({ data }: { data: ChangesDto }) {
  const { before, after, excluded, rewardChanged } = data
  const notes = [
    ...(rewardChanged ? ['the reward differs between the ranges'] : []),
    ...excluded.map(
      ({ reason, before, after }) =>
        `${reason as SampleFailureReason} ${formatCount(before)} → ${formatCount(after)} (not in the mean)`,
    ),
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

function signed(value: number): string {
  return value > 0 ? `+${formatScore(value)}` : formatScore(value)
}

function intervalText({ low, high }: ContributionDto): string {
  return low === null || high === null ? '' : `[${signed(low)} … ${signed(high)}]`
}
