'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { ChartGantt } from 'lucide-react'
import { useEffect, useMemo, useState } from 'react'
import type { PlannerDto } from '../../server/wire/planner.ts'
import { useTRPC } from '../api/trpc.ts'
import { durationText, formatCount, plural } from '../format/numbers.ts'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Figure, FigureStrip } from '../ui/figure-strip.tsx'
import { ChartSkeleton, TableSkeleton } from '../ui/skeleton.tsx'
import { useUrl } from '../url/use-url.ts'
import { askedBy, showKey } from './planner-form.prepare.ts'
import { PlannerForm } from './planner-form.tsx'
import { type PlannerDraft, plannerUrl } from './planner-url.ts'
import { StepTimeline } from './step-timeline.tsx'
import { StrategyTable } from './strategy-table.tsx'
import { stepText, verdictOf } from './strategy-words.ts'

/** A plan is asked for when nothing was typed for so long. */
const SETTLED_MS = 250

/** What overlapping rewards and training would save, from a record or typed numbers. */
export function PlannerPage() {
  const trpc = useTRPC()
  const [draft, change] = useDraft()
  const { input, errors } = useMemo(() => askedBy(draft), [draft])
  const asked = useSettled(input)
  const plan = useQuery({
    ...trpc.planner.plan.queryOptions(asked ?? NOTHING),
    enabled: asked !== null,
    placeholderData: keepPreviousData,
    staleTime: 60_000,
  })
  return (
    <>
      <PageHeader
        title="Planner"
        state={<span className="truncate text-ink-3 max-sm:hidden">what overlap would save</span>}
      />
      <div className="lg:grid lg:grid-cols-[340px_minmax(0,1fr)]">
        <div className="border-b lg:min-h-[calc(100dvh-48px)] lg:border-r lg:border-b-0">
          <PlannerForm draft={draft} errors={errors} onChange={change} />
        </div>
        <div className="min-w-0" aria-busy={plan.isFetching}>
          {plan.error && asked !== null && !plan.isFetching ? (
            <FailureView error={plan.error} onRetry={() => void plan.refetch()} />
          ) : plan.data !== undefined && (asked !== null || Object.keys(errors).length > 0) ? (
            <Planned
              plan={plan.data}
              isOld={plan.isPlaceholderData || input === null || input !== asked}
              onShow={(show) => change({ show })}
            />
          ) : input === null ? (
            <NothingNamed draft={draft} isWrong={Object.keys(errors).length > 0} />
          ) : (
            <div className="space-y-6 py-6">
              <TableSkeleton columns={3} rows={7} />
              <ChartSkeleton height={260} />
            </div>
          )}
        </div>
      </div>
    </>
  )
}

/** Stands for the question that is not asked. */
const NOTHING = {
  source: { kind: 'batch', batchId: 'b0' },
  phases: { rolloutMs: 0, logProbMs: 0, updateMs: 0 },
} as const

/** The form's state, which the URL follows; going back and forth sets it anew. */
function useDraft(): [PlannerDraft, (part: Partial<PlannerDraft>) => void] {
  const [url, setUrl] = useUrl(plannerUrl)
  const [draft, setDraft] = useState(url)
  useEffect(() => {
    const onPop = () => setDraft(plannerUrl.parse(new URLSearchParams(location.search)))
    addEventListener('popstate', onPop)
    return () => removeEventListener('popstate', onPop)
  }, [])
  const change = (part: Partial<PlannerDraft>) => {
    const next = { ...draft, ...part }
    setDraft(next)
    setUrl(next)
  }
  return [draft, change]
}

/** The value once it has stood for a while; the first at once. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), SETTLED_MS)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}

function Planned({
  plan,
  isOld,
  onShow,
}: {
  plan: PlannerDto
  /** Of another question than the form's. */
  isOld: boolean
  onShow(key: string): void
}) {
  const key = showKey(plan.shown.limit, plan.shown.servers)
  const column =
    plan.columns.find(({ limit, servers }) => showKey(limit, servers) === key) ?? plan.columns[0]
  if (column === undefined) return null
  const verdict = verdictOf(column)
  const best = column.strategies.find(({ strategy }) => strategy === column.best)
  const [barrier] = column.strategies
  return (
    <div
      data-planned={isOld ? 'old' : 'new'}
      className={`quick transition-opacity ${isOld ? 'opacity-60' : ''}`}
    >
      <div className="border-b px-5 py-4" aria-live="polite">
        <p className="text-md font-semibold text-pretty">{verdict.title}</p>
        <p className="mt-0.5 text-ink-2 text-pretty">{verdict.detail}</p>
      </div>
      <FigureStrip label="The rewards and the step">
        <Figure
          label="Reward, mean"
          value={durationText(plan.rewards.meanMs)}
          detail={`half by ${durationText(plan.rewards.p50Ms)}`}
        />
        <Figure
          label="Slowest"
          value={durationText(plan.rewards.maxMs)}
          detail={`99 % by ${durationText(plan.rewards.p99Ms)}`}
        />
        <Figure
          label="Rewards"
          value={formatCount(plan.rewards.samples)}
          detail={`a step, ${plural(plan.rewards.groups, 'group')}`}
        />
        <Figure
          label="Own work"
          value={stepText(plan.phases.rolloutMs + plan.phases.logProbMs + plan.phases.updateMs)}
          detail={`a step, ${plural(plan.miniBatches, 'update')}`}
        />
        <Figure
          label="Barrier waits"
          value={stepText(barrier?.waitMs ?? 0)}
          detail={`of ${stepText(barrier?.stepMs ?? 0)}`}
        />
        <Figure
          label="Best waits"
          value={stepText(best?.waitMs ?? 0)}
          detail={`of ${stepText(best?.stepMs ?? 0)}`}
        />
      </FigureStrip>
      <Recorded plan={plan} />
      <StrategyTable plan={plan} shown={column} onShow={onShow} />
      <div className="border-t pb-4">
        <StepTimeline plan={plan} column={column} />
      </div>
      <p className="max-w-2xl px-5 pb-8 text-xs text-ink-3">
        Replayed on a virtual clock: rewards are served in the order asked for, and a place is never
        idle while one waits. Left out: the service’s own cost (some 0.1 s a step), servers that get
        slower the more they have at once, and what training one step off-policy does to learning.
      </p>
    </div>
  )
}

/** What the record is, and what of it is not in the plan. */
function Recorded({ plan }: { plan: PlannerDto }) {
  const { batches, pending, withoutCall, recordedStepMs, samples } = plan.rewards
  const [first] = batches
  const last = batches.at(-1)
  if (first === undefined || last === undefined) return null
  return (
    <p className="num flex flex-wrap gap-x-3 gap-y-1 border-b px-5 py-2 text-xs text-ink-3">
      <span>
        From{' '}
        <PageLink href={`/batches/${first.batchId}`} className="font-mono text-accent">
          {first.batchId}
        </PageLink>
        {batches.length > 1 && (
          <>
            {' '}
            to{' '}
            <PageLink href={`/batches/${last.batchId}`} className="font-mono text-accent">
              {last.batchId}
            </PageLink>
            , {plural(batches.length, 'step')}
          </>
        )}
        , {plural(samples, 'sample')} a step
      </span>
      {recordedStepMs !== null && (
        <span>a step came every {stepText(recordedStepMs)} when it was recorded</span>
      )}
      {pending > 0 && <span>{plural(pending, 'sample')} not ended yet: left out</span>}
      {withoutCall > 0 && <span>{plural(withoutCall, 'sample')} without a call: no time</span>}
    </p>
  )
}

function NothingNamed({ draft, isWrong }: { draft: PlannerDraft; isWrong: boolean }) {
  if (isWrong) {
    return (
      <Empty icon={ChartGantt} title="Correct what is marked">
        The plan appears here as soon as every field can be read.
      </Empty>
    )
  }
  return (
    <Empty
      icon={ChartGantt}
      title={draft.source === 'run' ? 'Which run?' : 'Which batch?'}
      actions={
        <PageLink href="/batches" className={buttonClass()}>
          See the batches
        </PageLink>
      }
    >
      Its recorded rewards, sample by sample, are replayed under every strategy. Without one, type
      how long rewards take.
    </Empty>
  )
}
