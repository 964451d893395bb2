'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { MessageSquareText } from 'lucide-react'
import { useMemo, useRef } from 'react'
import {
  MAX_VISITS,
  PROMPT_CLASS_TEXT,
  type PromptHistoryDto,
  type PromptVisitDto,
} from '../../server/contract/prompts.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { ChartFrame } from '../charts/chart-frame.tsx'
import { lazyPlot } from '../charts/lazy-plot.tsx'
import { prepareVisits } from '../charts/prompt-steps.prepare.ts'
import { formatCount, formatPercent, formatScore, percentText } from '../format/numbers.ts'
import { firstLine } from '../format/text.ts'
import { PromptText } from '../rollouts/prompt-text.tsx'
import { RunMissing } from '../runs/run-head.tsx'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass } from '../ui/button.tsx'
import { CopyText } from '../ui/copy-text.tsx'
import { Empty } from '../ui/empty.tsx'
import { Figure, FigureStrip, FigureStripSkeleton } from '../ui/figure-strip.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { ChartSkeleton, TableSkeleton } from '../ui/skeleton.tsx'
import { PromptClassView } from '../ui/status.tsx'
import { useUrl } from '../url/use-url.ts'
import { ChangeText, NO_CHANGE, rateText, visitsText } from './prompt-cells.tsx'
import { PromptResponses } from './prompt-responses.tsx'
import { PromptVisits } from './prompt-visits.tsx'
import { type PromptUrl, promptsHref, promptUrl, visitIds } from './prompts-url.ts'

const VisitsPlot = lazyPlot(async () => (await import('../charts/prompt-plots.tsx')).VisitsPlot)

export type ListedVisit = PromptVisitDto & { id: string }

export function PromptPage({ run, promptKey }: { run: string; promptKey: string }) {
  const trpc = useTRPC()
  const [url, setUrl] = useUrl(promptUrl)
  const prompt = useQuery(
    trpc.prompts.history.queryOptions(
      { run, split: url.split, key: promptKey },
      { meta: { topics: ['batches'] }, placeholderData: keepPreviousData },
    ),
  )
  const reason = prompt.error && describeFailure(prompt.error).reason
  const list = promptsHref(run, { split: url.split })
  return (
    <>
      <PageHeader
        parent={{ href: list, label: 'Prompts' }}
        title={prompt.data ? titleOf(prompt.data) : 'Prompt'}
        state={
          <span className="text-ink-2 max-sm:hidden">
            <RunName run={run} />
          </span>
        }
      />
      {reason === 'run_not_found' ? (
        <RunMissing name={run} />
      ) : reason === 'prompt_not_found' || reason === 'invalid_input' ? (
        <Empty
          icon={MessageSquareText}
          title="Prompt not found"
          actions={
            <PageLink href={list} className={buttonClass('plain', true)}>
              View prompts
            </PageLink>
          }
        >
          The run has no record of this prompt. A prompt appears once its batch has ended.
        </Empty>
      ) : (
        <QueryView query={prompt} skeleton={<PromptSkeleton />}>
          {(data) => <Loaded prompt={data} url={url} onChange={setUrl} />}
        </QueryView>
      )}
    </>
  )
}

function titleOf({ promptId, preview }: PromptHistoryDto): string {
  const line = promptId ?? firstLine(preview)
  return line.length > 72 ? `${line.slice(0, 71)}…` : line || 'Empty prompt'
}

function Loaded({
  prompt,
  url,
  onChange,
}: {
  prompt: PromptHistoryDto
  url: PromptUrl
  onChange(change: Partial<PromptUrl>): void
}) {
  const visits = useMemo(() => {
    const ids = visitIds(prompt.history)
    return prompt.history.map((visit, at): ListedVisit => ({ ...visit, id: ids[at] as string }))
  }, [prompt.history])
  const newest = visits.findLast(({ uid }) => uid !== null) ?? null
  const find = (id: string | null) => visits.find((visit) => visit.id === id) ?? null
  const visit = find(url.visit) ?? newest
  const beside = find(url.beside)
  const data = useMemo(() => prepareVisits(visits), [visits])
  const rate = data.passRates ? 'Pass rate' : 'Mean score'
  const text = data.passRates ? percentText : formatScore
  const responses = useRef<HTMLDivElement>(null)
  /** Scrolls up to the responses, which may be far above the row that was clicked. */
  const reveal = () => {
    if ((responses.current?.getBoundingClientRect().bottom ?? 0) < window.innerHeight / 2)
      responses.current?.scrollIntoView()
  }
  const show = (id: string) =>
    onChange(id === url.beside ? { visit: id, beside: null } : { visit: id })
  return (
    <>
      <Figures prompt={prompt} />
      <div className="grid border-b lg:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]">
        <Section
          title="Prompt"
          note={
            <>
              key <CopyText text={prompt.key} maxChars={13} className="text-2xs" />
            </>
          }
          className="max-lg:border-b lg:border-r"
        >
          <Text newest={newest} preview={prompt.preview} />
        </Section>
        <ChartFrame
          title={`${rate} over steps`}
          note={`${visitsText(visits.length)}; 95 % confidence interval over samples`}
          height={250}
          chart={
            <VisitsPlot
              data={data}
              shown={[visit, beside].flatMap((one) => (one === null ? [] : visits.indexOf(one)))}
              onVisit={({ at }) => at !== null && show((visits[at] as ListedVisit).id)}
            />
          }
          table={{
            head: ['Step', rate, 'Low', 'High', 'n'],
            rows: data.steps
              .toReversed()
              .map(({ step, rate, interval, n }) => [
                formatCount(step),
                text(rate),
                text(interval?.[0]),
                text(interval?.[1]),
                formatCount(n),
              ]),
          }}
        />
      </div>
      <div ref={responses} className="scroll-mt-12">
        <PromptResponses visit={visit} beside={beside} onClose={() => onChange({ beside: null })} />
      </div>
      <PromptVisits
        visits={visits}
        shown={visit?.id ?? null}
        beside={beside?.id ?? null}
        onShow={(id) => {
          show(id)
          reveal()
        }}
        onBeside={(id) => {
          onChange({ beside: id })
          reveal()
        }}
      />
    </>
  )
}

function Figures({ prompt }: { prompt: PromptHistoryDto }) {
  const unit = prompt.passRate === null ? 'Mean score' : 'Pass rate'
  const varied = formatPercent(prompt.variedShare)
  return (
    <FigureStrip label="Prompt figures">
      <Figure
        label="Class"
        hint={PROMPT_CLASS_TEXT[prompt.class]}
        value={
          <span className="text-md">
            <PromptClassView name={prompt.class} />
          </span>
        }
        detail={prompt.dataSource}
      />
      <Figure
        label={unit}
        value={rateText(prompt.passRate, prompt.mean)}
        detail={`n = ${formatCount(prompt.scored)}`}
      />
      <Figure
        label="Last two visits"
        value={rateText(prompt.recentPassRate, prompt.recentMean)}
        detail={unit}
      />
      <Figure
        label="Change"
        hint={`${unit} of the last two visits minus that of the earlier ones`}
        value={prompt.change === null ? '–' : <ChangeText prompt={prompt} />}
        detail={prompt.change === null ? NO_CHANGE : 'Last two visits − earlier ones'}
      />
      <Figure
        label="Varied visits"
        hint="Share of visits whose samples have different scores. Other visits give no signal."
        value={varied.value}
        unit={varied.unit}
      />
      <Figure
        label="Visits"
        hint={`Number of groups of this prompt; only the newest ${MAX_VISITS} count`}
        value={formatCount(prompt.visits)}
        detail={`Last at step ${formatCount(prompt.lastStep)}`}
      />
    </FigureStrip>
  )
}

/** The whole prompt, from a sample of the newest visit that has samples. */
function Text({ newest, preview }: { newest: ListedVisit | null; preview: string }) {
  const trpc = useTRPC()
  const first = useQuery(
    trpc.samples.list.queryOptions(
      { batch: newest?.batchId, uid: newest?.uid ?? undefined, limit: 1 },
      { enabled: newest !== null, staleTime: Number.POSITIVE_INFINITY },
    ),
  )
  return (
    <Scroll label="Prompt text" className="max-h-[272px] overflow-y-auto px-5 pb-4">
      {newest === null ? (
        <Beginning preview={preview} />
      ) : (
        <QueryView query={first} compact skeleton={<TextSkeleton />}>
          {({ items: [sample] }) =>
            sample === undefined ? (
              <Beginning preview={preview} />
            ) : (
              <WholeText id={sample.id} preview={preview} />
            )
          }
        </QueryView>
      )}
    </Scroll>
  )
}

function WholeText({ id, preview }: { id: string; preview: string }) {
  const trpc = useTRPC()
  const sample = useQuery(
    trpc.samples.get.queryOptions(
      { id, imagesByHash: true },
      { staleTime: Number.POSITIVE_INFINITY },
    ),
  )
  return (
    <QueryView query={sample} compact skeleton={<TextSkeleton />}>
      {({ textsRemovedAt, prompt }) =>
        textsRemovedAt === null ? <PromptText prompt={prompt} /> : <Beginning preview={preview} />
      }
    </QueryView>
  )
}

function Beginning({ preview }: { preview: string }) {
  return (
    <>
      <PromptText prompt={preview} />
      <p className="mt-2 text-xs text-ink-3">
        Retention removed the samples that held the whole text. At most its first 300 characters are
        kept.
      </p>
    </>
  )
}

function TextSkeleton() {
  return <TableSkeleton columns={1} rows={4} />
}

function PromptSkeleton() {
  return (
    <>
      <FigureStripSkeleton />
      <ChartSkeleton height={300} />
      <TableSkeleton columns={6} rows={6} />
    </>
  )
}
