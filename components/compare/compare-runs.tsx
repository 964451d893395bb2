'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Eye, EyeOff, ListTree, X } from 'lucide-react'
import { useMemo } from 'react'
import { type CompareRunsDto, MAX_COMPARED_RUNS } from '../../server/contract/compare.ts'
import { useTRPC } from '../api/trpc.ts'
import { hueOf } from '../charts/hue.ts'
import { StepAxisProvider } from '../charts/step-axis.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { SeededMark } from '../runs/seeded-mark.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Button, buttonClass, IconButton } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { Segmented } from '../ui/field.tsx'
import { MiddleText } from '../ui/middle-text.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Select } from '../ui/select.tsx'
import { ChartSkeleton } from '../ui/skeleton.tsx'
import type { CompareProps } from './compare-url.ts'
import { ComparedConfigs } from './compared-configs.tsx'
import { RunOverlays } from './run-overlays.tsx'

export function CompareRuns({ url, onChange }: CompareProps) {
  const trpc = useTRPC()
  const compared = useQuery({
    ...trpc.compare.runs.queryOptions(
      {
        ...{ runs: url.runs.length === 0 ? ['-'] : url.runs, split: url.split },
        ...(url.zoom && { from: url.zoom.from, until: url.zoom.to }),
      },
      { meta: { topics: ['batches'] }, placeholderData: keepPreviousData },
    ),
    enabled: url.runs.length > 0,
  })
  return (
    <>
      <ChosenRuns
        url={url}
        onChange={onChange}
        data={url.runs.length === 0 ? undefined : compared.data}
      />
      {url.runs.length === 0 ? (
        <Empty
          icon={ListTree}
          title="Select runs"
          actions={
            <PageLink href="/runs" className={buttonClass()}>
              View runs
            </PageLink>
          }
        >
          The charts overlay rewards, no-signal groups, failures and reward waits of up to{' '}
          {MAX_COMPARED_RUNS} runs over steps, and compare each run with the first.
        </Empty>
      ) : (
        <QueryView
          query={compared}
          skeleton={
            <div className="space-y-8 py-6">
              <ChartSkeleton height={320} />
              <ChartSkeleton height={200} />
            </div>
          }
        >
          {(data) => (
            <>
              <Compared data={data} url={url} onChange={onChange} />
              <ComparedConfigs
                runs={data.runs.map(({ name }) => name)}
                url={url}
                onChange={onChange}
              />
            </>
          )}
        </QueryView>
      )}
    </>
  )
}

function Compared({ data, url, onChange }: CompareProps & { data: CompareRunsDto }) {
  const axis = useMemo(
    () => ({
      ...{ by: 'step' as const, timeOf: () => null },
      onRange: (from: number, to: number) => onChange({ zoom: { from, to } }),
    }),
    [onChange],
  )
  if (data.runs.every(({ step }) => step.length === 0)) {
    return (
      <Empty
        icon={ListTree}
        title={
          data.runs.length === 0
            ? 'Run not found'
            : url.zoom === null
              ? 'No steps yet'
              : 'No steps in this range'
        }
        actions={
          url.zoom !== null && (
            <Button small onClick={() => onChange({ zoom: null })}>
              Show all steps
            </Button>
          )
        }
      >
        {data.runs.length === 0
          ? `There is no run ${data.missing.map((name) => `“${name}”`).join(', ')}.`
          : `No ended batch has the split ${data.split}.`}
      </Empty>
    )
  }
  return (
    <StepAxisProvider value={axis}>
      <RunOverlays data={data} url={url} onChange={onChange} />
    </StepAxisProvider>
  )
}

function ChosenRuns({ url, onChange, data }: CompareProps & { data: CompareRunsDto | undefined }) {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions(undefined, { meta: { topics: ['batches'] } }))
  const others = (runs.data ?? [])
    .map(({ name }) => name)
    .filter((name) => !url.runs.includes(name))
  const missing = data?.missing ?? []
  return (
    <div className="border-b px-5 py-3">
      <div className="flex flex-wrap items-center gap-2">
        {url.runs.map((name, at) => (
          <RunChip
            key={name}
            name={name}
            split={url.split}
            isFirst={at === 0 && url.runs.length > 1}
            isHidden={url.hidden.includes(name)}
            isMissing={missing.includes(name)}
            isSeeded={data?.runs.find((run) => run.name === name)?.seeded === true}
            onHide={() =>
              onChange({
                hidden: url.hidden.includes(name)
                  ? url.hidden.filter((one) => one !== name)
                  : [...url.hidden, name],
              })
            }
            onRemove={() =>
              onChange({ mode: 'runs', runs: url.runs.filter((one) => one !== name) })
            }
          />
        ))}
        {others.length > 0 && url.runs.length < MAX_COMPARED_RUNS && (
          <div className="w-44">
            <Select
              label="Add a run"
              hideLabel
              searchable
              value={null}
              placeholder="Add a run…"
              options={others}
              onChange={(run) =>
                run !== null && onChange({ mode: 'runs', runs: [...url.runs, run] }, 'push')
              }
            />
          </div>
        )}
        {url.runs.length > 0 && (
          <span className="ml-auto">
            <Segmented
              label="Split"
              value={url.split}
              options={[
                { value: 'train', label: 'Training' },
                { value: 'val', label: 'Validation' },
              ]}
              onChange={(split) => onChange({ split })}
            />
          </span>
        )}
      </div>
      <p className="num mt-1.5 text-xs text-ink-3">
        {[
          url.runs.length >= MAX_COMPARED_RUNS
            ? `At most ${MAX_COMPARED_RUNS} runs`
            : `${plural(url.runs.length, 'run')} of at most ${MAX_COMPARED_RUNS}`,
          'ended batches only',
          ...(data !== undefined && data.width > 1
            ? [`bins of ${formatCount(data.width)} steps; drag over a chart to zoom`]
            : []),
        ].join(' · ')}
      </p>
    </div>
  )
}

function RunChip({
  name,
  split,
  isFirst,
  isHidden,
  isMissing,
  isSeeded,
  onHide,
  onRemove,
}: {
  name: string
  split: 'train' | 'val'
  isFirst: boolean
  isHidden: boolean
  isMissing: boolean
  isSeeded: boolean
  onHide(): void
  onRemove(): void
}) {
  const Icon = isHidden ? EyeOff : Eye
  return (
    <span
      className={`inline-flex h-7 max-w-full items-center gap-2 rounded-md border pl-2.5 text-xs ${isHidden || isMissing ? 'text-ink-3' : ''}`}
    >
      <span
        className={`size-2 rounded-full ${isHidden ? 'opacity-35' : ''}`}
        style={{ background: hueOf('run', name) }}
        aria-hidden
      />
      {isMissing ? (
        <span className="max-w-48 truncate">
          {name} <span className="text-bad">Run not found</span>
        </span>
      ) : (
        <PageLink
          href={`/runs/${encodeURIComponent(name)}${split === 'val' ? '?split=val' : ''}`}
          className="min-w-0 hover:underline"
          title={name}
        >
          <MiddleText text={name} className="max-w-80" />
        </PageLink>
      )}
      {isFirst && <span className="text-ink-3">First</span>}
      {isSeeded && <SeededMark />}
      <span className="inline-flex">
        {!isMissing && (
          <IconButton
            label={isHidden ? `Show ${name}` : `Hide ${name}`}
            aria-pressed={isHidden}
            onClick={onHide}
          >
            <Icon size={13} aria-hidden />
          </IconButton>
        )}
        <IconButton label={`Remove ${name}`} onClick={onRemove}>
          <X size={13} aria-hidden />
        </IconButton>
      </span>
    </span>
  )
}
