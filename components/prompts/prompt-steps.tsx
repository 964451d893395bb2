'use client'

import { useQuery } from '@tanstack/react-query'
import { ChartNoAxesColumn } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { type ReactNode, useMemo } from 'react'
import type { PromptStepDto } from '../../server/contract/prompts.ts'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import {
  isBestOfPassAt,
  type KData,
  PASS_LEVELS,
  prepareByK,
  preparePassShares,
} from '../charts/prompt-steps.prepare.ts'
import { kColor, PASS_COLOR, PASS_LABEL } from '../charts/prompt-words.ts'
import { formatCount, formatScore, percentText, plural } from '../format/numbers.ts'
import { Button } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { ChartSkeleton } from '../ui/skeleton.tsx'
import type { PromptsUrl } from './prompts-url.ts'

const SharesPlot = lazyPlot(async () => (await import('../charts/prompt-plots.tsx')).PassSharesPlot)
const ByKPlot = lazyPlot(async () => (await import('../charts/prompt-plots.tsx')).ByKPlot)

export function PromptSteps({
  run,
  url,
  onChange,
}: {
  run: string
  url: PromptsUrl
  onChange(change: Partial<PromptsUrl>): void
}) {
  const trpc = useTRPC()
  const steps = useQuery(
    trpc.prompts.steps.queryOptions(
      { run, split: url.split },
      { meta: { topics: ['batches'], minGapMs: 5_000 } },
    ),
  )
  return (
    <QueryView query={steps} skeleton={<ChartSkeleton height={280} />}>
      {(data) =>
        data.steps.length === 0 ? (
          <Empty icon={ChartNoAxesColumn} title="No ended steps yet">
            A step appears here when its batch has ended.
          </Empty>
        ) : (
          <Charts steps={data.steps} earlier={data.earlier} url={url} onChange={onChange} />
        )
      }
    </QueryView>
  )
}

function Charts({
  steps,
  earlier,
  url,
  onChange,
}: {
  steps: readonly PromptStepDto[]
  earlier: number
  url: PromptsUrl
  onChange(change: Partial<PromptsUrl>): void
}) {
  const router = useRouter()
  const shown = useMemo(() => {
    const { zoom } = url
    const inside = zoom ? steps.filter(({ step }) => step >= zoom.from && step <= zoom.to) : []
    return inside.length > 0 ? inside : steps
  }, [steps, url])
  const shares = useMemo(() => preparePassShares(shown), [shown])
  const passAt = useMemo(() => prepareByK(shown, 'passAt'), [shown])
  const bestOf = useMemo(() => prepareByK(shown, 'bestOf'), [shown])
  const isSame = passAt !== null && isBestOfPassAt(shown)
  const plot = {
    onStep: ({ batchId }: { batchId: string | null }) => {
      if (batchId !== null) router.push(`/batches/${batchId}`)
    },
    onRange: (from: number, to: number) => onChange({ zoom: { from, to } }),
  }
  const allSteps = url.zoom !== null && (
    <Button small variant="quiet" onClick={() => onChange({ zoom: null })}>
      Show all steps
    </Button>
  )
  const n =
    plural(shown.length, 'step') +
    (earlier > 0 ? `; ${formatCount(earlier)} earlier steps omitted` : '')
  return (
    <>
      {shares === null ? (
        <p className="border-b px-5 py-3 text-ink-3">
          Reward-model scores alone do not show whether a sample passes, so there are no pass rates.
        </p>
      ) : (
        <ChartFrame
          className="border-b"
          title="Groups by pass rate"
          note={`Share of a step's groups; ${n}`}
          height={280}
          actions={allSteps}
          legend={PASS_LEVELS.toReversed().map((level) => ({
            ...{ label: PASS_LABEL[level], color: PASS_COLOR[level] },
          }))}
          chart={<SharesPlot data={shares} {...plot} />}
          table={{
            head: ['Step', ...PASS_LEVELS.map((level) => PASS_LABEL[level]), 'Groups'],
            rows: shares.steps
              .filter(({ batchId }) => batchId !== null)
              .toReversed()
              .map((row) => [
                formatCount(row.step),
                ...PASS_LEVELS.map((level) => percentText(row[level])),
                formatCount(row.groups),
              ]),
          }}
        />
      )}
      <div className={`grid ${passAt !== null && !isSame ? 'md:grid-cols-2' : ''}`}>
        {passAt && (
          <ByK
            data={passAt}
            title="pass@k"
            note={`Probability that at least one of k samples passes${isSame ? '; best of k is the same, because all scores are 0 or 1' : ''}`}
            isShare
            actions={shares === null && allSteps}
            isHalf={passAt !== null && !isSame}
            plot={plot}
          />
        )}
        {bestOf && !isSame && (
          <ByK
            data={bestOf}
            title="Best of k"
            note="Expected highest score of k samples"
            isShare={false}
            actions={shares === null && allSteps}
            isHalf={passAt !== null && !isSame}
            plot={plot}
          />
        )}
      </div>
    </>
  )
}

function ByK({
  data,
  title,
  note,
  isShare,
  actions,
  isHalf,
  plot,
}: {
  data: KData
  title: string
  note: string
  isShare: boolean
  actions: ReactNode
  isHalf: boolean
  plot: {
    onStep(step: { batchId: string | null }): void
    onRange(from: number, to: number): void
  }
}) {
  const text = isShare ? percentText : formatScore
  return (
    <ChartFrame
      className={`border-b ${isHalf ? 'md:border-r' : ''}`}
      title={title}
      note={note}
      height={260}
      actions={actions}
      legend={data.ks
        .toReversed()
        .map((k) => ({ label: `k = ${k}`, color: kColor(data.ks, k), stroke: 'solid' as const }))}
      chart={<ByKPlot data={data} title={title} isShare={isShare} {...plot} />}
      table={{
        head: ['Step', ...data.ks.map((k) => `k = ${k}`), 'Groups'],
        rows: data.steps
          .filter(({ batchId }) => batchId !== null)
          .toReversed()
          .map((row) => [
            formatCount(row.step),
            ...data.ks.map((k) => text(row[`k:${k}`] ?? null)),
            formatCount(row.groups),
          ]),
      }}
    />
  )
}
