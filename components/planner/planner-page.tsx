'use client'

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { ChartGantt } from 'lucide-react'
import { useEffect, useMemo, useState } from 'react'
import type { PlannerDto } from '../../server/contract/planner.ts'
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
import { requestOf, showKey } from './planner-form.prepare.ts'
import { PlannerForm } from './planner-form.tsx'
import { type PlannerDraft, plannerUrl } from './planner-url.ts'
import { StepTimeline } from './step-timeline.tsx'
import { StrategyTable } from './strategy-table.tsx'
import { originText, RECOMMENDED, stepText, verdictOf } from './strategy-words.ts'

const SETTLED_MS = 250

export function PlannerPage() {
  const trpc = useTRPC()
  const [draft, change] = useDraft()
  const { input, errors } = useMemo(() => requestOf(draft), [draft])
  const settledInput = useSettled(input)
  const plan = useQuery({
    ...trpc.planner.plan.queryOptions(settledInput ?? NOTHING),
    enabled: settledInput !== null,
    placeholderData: keepPreviousData,
    staleTime: 60_000,
  })
  return (
    <>
      <PageHeader
        title="Planner"
        state={
          <span className="truncate text-ink-3 max-sm:hidden">
            Time saved by overlapping rewards and training
          </span>
        }
      />
      <div className="lg:grid lg:grid-cols-[340px_minmax(0,1fr)]">
        <div className="border-b lg:min-h-[calc(100dvh-48px)] lg:border-r lg:border-b-0">
          <PlannerForm
            draft={draft}
            errors={errors}
            plan={plan.data === undefined || plan.isPlaceholderData ? null : plan.data}
            onChange={change}
          />
        </div>
        <div className="min-w-0" aria-busy={plan.isFetching}>
          {plan.error && settledInput !== null && !plan.isFetching ? (
            <FailureView error={plan.error} onRetry={() => void plan.refetch()} />
          ) : plan.data !== undefined &&
            (settledInput !== null || Object.keys(errors).length > 0) ? (
            <Planned
              plan={plan.data}
              isOld={plan.isPlaceholderData || input === null || input !== settledInput}
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

/** Placeholder input for the plan query while the query is disabled. */
const NOTHING = {
  source: { kind: 'batch', batchId: 'b0' },
  phases: { rolloutMs: 0, logProbMs: 0, updateMs: 0 },
} as const

/** The form state. It is copied to the URL, from which the back and forward buttons restore it. */
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

/** Debounces a value. The first value applies immediately. */
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
  /** Whether the plan belongs to an earlier form state. */
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
        <p className="mt-0.5 text-ink-2 text-pretty">{originText(plan)}</p>
      </div>
      <FigureStrip label="Plan figures">
        <Figure
          label="Mean reward latency"
          value={durationText(plan.rewards.meanMs)}
          detail={`p50 ${durationText(plan.rewards.p50Ms)}`}
        />
        <Figure
          label="Max reward latency"
          value={durationText(plan.rewards.maxMs)}
          detail={`p99 ${durationText(plan.rewards.p99Ms)}`}
        />
        <Figure
          label="Rewards"
          value={formatCount(plan.rewards.samples)}
          detail={`Per step, ${plural(plan.rewards.groups, 'group')}`}
        />
        <Figure
          label="Trainer time"
          hint="Rollout, log-probs and updates of a step."
          value={stepText(plan.phases.rolloutMs + plan.phases.logProbMs + plan.phases.updateMs)}
          detail={`Per step, ${plural(plan.miniBatches, 'update')}`}
        />
        <Figure
          label="Reward wait (barrier)"
          hint="Time per step that the trainer waits for rewards if training starts only when all rewards have arrived (barrier strategy)."
          value={stepText(barrier?.waitMs ?? 0)}
          detail={`Of ${stepText(barrier?.stepMs ?? 0)} step time`}
        />
        <Figure
          label="Reward wait (recommended)"
          hint={`Time per step that the trainer waits for rewards under the recommended strategy. ${RECOMMENDED}`}
          value={stepText(best?.waitMs ?? 0)}
          detail={`Of ${stepText(best?.stepMs ?? 0)} step time`}
        />
      </FigureStrip>
      <Recorded plan={plan} />
      <StrategyTable plan={plan} shown={column} onShow={onShow} />
      <div className="border-t pb-4">
        <StepTimeline plan={plan} column={column} />
      </div>
      <p className="max-w-2xl px-5 pb-8 text-xs text-ink-3">
        The plan is simulated on a virtual clock. Samples are scored in the order in which they
        arrive, and no slot is idle while a sample waits. The simulation excludes the overhead of
        the service (about 0.1 s per step), servers that slow down under load, and the effect of
        off-policy training on learning.
      </p>
    </div>
  )
}

function Recorded({ plan }: { plan: PlannerDto }) {
  const { batches, pending, withoutCall, recordedStepMs, recordedWaitMs, samples } = plan.rewards
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
        , {plural(samples, 'sample')} per step
      </span>
      {recordedStepMs !== null && <span>Recorded step time {stepText(recordedStepMs)}</span>}
      {recordedWaitMs !== null && <span>Recorded reward wait {stepText(recordedWaitMs)}</span>}
      {pending > 0 && <span>{plural(pending, 'sample')} not finished, excluded</span>}
      {withoutCall > 0 && (
        <span>{plural(withoutCall, 'sample')} without a request, counted as 0 s</span>
      )}
    </p>
  )
}

function NothingNamed({ draft, isWrong }: { draft: PlannerDraft; isWrong: boolean }) {
  if (isWrong) {
    return (
      <Empty icon={ChartGantt} title="Fix highlighted fields">
        The plan appears here once every field is valid.
      </Empty>
    )
  }
  return (
    <Empty
      icon={ChartGantt}
      title={draft.source === 'run' ? 'Select a run' : 'Select a batch'}
      actions={
        <PageLink href="/batches" className={buttonClass()}>
          View batches
        </PageLink>
      }
    >
      The plan replays the recorded reward latencies of the batch or run under every strategy. If
      you have neither, enter a latency distribution.
    </Empty>
  )
}
