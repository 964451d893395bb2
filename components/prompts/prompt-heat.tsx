'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { FilterX } from 'lucide-react'
import { useRouter } from 'next/navigation'
import { useMemo } from 'react'
import type { PromptHeatDto } from '../../server/contract/prompts.ts'
import { useTRPC } from '../api/trpc.ts'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { preparePromptHeat } from '../charts/prompt-heat.prepare.ts'
import { formatCount, formatScore, percentText, plural } from '../format/numbers.ts'
import { firstLine } from '../format/text.ts'
import { Empty } from '../ui/empty.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { ChartSkeleton } from '../ui/skeleton.tsx'
import { type PromptsUrl, promptFilter, promptHref } from './prompts-url.ts'

const HeatPlot = lazyPlot(
  async () => (await import('../charts/prompt-heat-plot.tsx')).PromptHeatPlot,
  <ChartSkeleton height={540} />,
)

/** The height of the chart, px: 120 rows of about 4.5 px, and the axis. */
const HEIGHT = 580

export function PromptHeat({ run, url }: { run: string; url: PromptsUrl }) {
  const trpc = useTRPC()
  const heat = useQuery(
    trpc.prompts.heat.queryOptions(promptFilter(run, url), {
      meta: { topics: ['batches'], minGapMs: 5_000 },
      placeholderData: keepPreviousData,
    }),
  )
  return (
    <QueryView query={heat} skeleton={<ChartSkeleton height={HEIGHT} />}>
      {(data) =>
        data.rows.length === 0 ? (
          <Empty icon={FilterX} title="No matching prompts">
            Change or clear the filters above.
          </Empty>
        ) : (
          <Loaded run={run} url={url} heat={data} />
        )
      }
    </QueryView>
  )
}

function Loaded({ run, url, heat }: { run: string; url: PromptsUrl; heat: PromptHeatDto }) {
  const router = useRouter()
  const data = useMemo(() => preparePromptHeat(heat), [heat])
  const { rows, total, passRates } = heat
  const text = passRates ? percentText : formatScore
  const rate = passRates ? 'pass rate' : 'mean'
  const sample =
    rows.length < total
      ? `Random sample of ${formatCount(rows.length)} of ${plural(total, 'prompt')}`
      : plural(total, 'prompt')
  return (
    <ChartFrame
      title={passRates ? 'Pass rate by prompt' : 'Mean score by prompt'}
      note={`${sample}; ${passRates ? 'easiest' : 'highest mean'} on top; pale cells repeat the last visit’s ${rate}`}
      height={HEIGHT}
      actions={
        passRates ? (
          <HeatScale low={text(data.low)} high={text(data.high)} />
        ) : (
          <HeatScale low={`≤ ${text(data.low)}`} high={`≥ ${text(data.high)}`} />
        )
      }
      chart={
        <HeatPlot
          data={data}
          passRates={passRates}
          onPrompt={(key) => router.push(promptHref(run, url.split, key))}
        />
      }
      table={{
        head: ['Prompt', 'Visits', 'First step', `First ${rate}`, 'Last step', `Last ${rate}`],
        rows: rows.map(({ key, promptId, preview, steps, rates }) => [
          promptId ?? `${key.slice(0, 8)} ${firstLine(preview).slice(0, 60)}`,
          formatCount(steps.length),
          formatCount(steps[0]),
          text(rates[0]),
          formatCount(steps.at(-1)),
          text(rates.at(-1)),
        ]),
      }}
    />
  )
}

function HeatScale({ low, high }: { low: string; high: string }) {
  return (
    <span className="num flex items-center gap-1.5 text-xs text-ink-3">
      {low}
      <span
        aria-hidden
        className="h-2 w-20 rounded-[2px] bg-linear-to-r from-line-strong to-(--data-1)"
      />
      {high}
    </span>
  )
}
