'use client'

import { useQuery } from '@tanstack/react-query'
import { FlaskConical } from 'lucide-react'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { RewardsDto } from '../../server/contract/rewards.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { Button } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Skeleton } from '../ui/skeleton.tsx'
import { useUrl } from '../url/use-url.ts'
import { rewardsUrl } from './rewards-url.ts'
import type { Tried } from './trace-item.tsx'
import { TriedView } from './tried-view.tsx'
import { TRY_EXAMPLES } from './try-examples.ts'
import {
  draftOfReward,
  draftOfSample,
  EMPTY_TRY,
  prepareTry,
  type TryDraft,
  type TryErrors,
} from './try-form.prepare.ts'
import { TryForm } from './try-form.tsx'

type Run =
  | { state: 'none' }
  | { state: 'running'; since: number; stop(): void }
  | { state: 'done'; tried: Tried; response: string }
  | { state: 'failed'; error: unknown }

export function TryView({
  rewards,
  sampleId,
  reward,
}: {
  rewards: RewardsDto
  sampleId: string | null
  reward: string | null
}) {
  const client = useTRPCClient()
  const [, setUrl] = useUrl(rewardsUrl)
  const [draft, setDraft] = useState<TryDraft>(() => begin(rewards, reward))
  const [errors, setErrors] = useState<TryErrors>({})
  const [run, setRun] = useState<Run>({ state: 'none' })
  const stop = useRef<AbortController>(null)
  const outcome = useRef<HTMLDivElement>(null)
  useEffect(() => () => stop.current?.abort(), [])
  const loading = useLoadedSample(sampleId, (loaded) => {
    setDraft((now) => ({ ...now, ...loaded }))
    setRun({ state: 'none' })
  })
  const change = (part: Partial<TryDraft>) => {
    setDraft({ ...draft, ...part })
    const left = { ...errors }
    for (const name of Object.keys(part)) delete left[name as keyof TryErrors]
    setErrors(left)
  }
  const score = async () => {
    const prepared = prepareTry(draft)
    if ('errors' in prepared) {
      setErrors(prepared.errors)
      return
    }
    setErrors({})
    stop.current?.abort()
    const abort = new AbortController()
    stop.current = abort
    setRun({ state: 'running', since: Date.now(), stop: () => abort.abort() })
    try {
      const tried = await client.rewards.try.mutate(prepared.call as never, {
        signal: abort.signal,
      })
      if (abort.signal.aborted) return
      setRun({ state: 'done', tried, response: draft.response })
    } catch (error) {
      setRun(abort.signal.aborted ? { state: 'none' } : { state: 'failed', error })
    }
    // Below 1,180 px, the result is under the form, so the page scrolls to it.
    if (!matchMedia('(min-width: 1180px)').matches) outcome.current?.scrollIntoView()
  }
  return (
    <div className="lg:grid lg:grid-cols-[minmax(0,440px)_minmax(0,1fr)] xl:grid-cols-[minmax(0,520px)_minmax(0,1fr)]">
      <TryForm
        rewards={rewards}
        draft={draft}
        errors={errors}
        busy={run.state === 'running'}
        sampleId={sampleId}
        loading={loading}
        onChange={change}
        onExample={(example) => {
          setUrl({ sample: null, reward: null })
          setErrors({})
          setRun({ state: 'none' })
          setDraft({ ...EMPTY_TRY, ...example.draft })
        }}
        onLoad={(id) => setUrl({ sample: id })}
        onScore={() => void score()}
      />
      <div
        ref={outcome}
        className="min-w-0 scroll-mt-12 max-lg:border-t lg:border-l"
        aria-live="polite"
      >
        <Outcome run={run} onRetry={() => void score()} />
      </div>
    </div>
  )
}

function begin(rewards: RewardsDto, reward: string | null): TryDraft {
  const [first] = TRY_EXAMPLES
  const draft = { ...EMPTY_TRY, ...first?.draft }
  if (reward === null) return draft
  const generative = (model: string) =>
    rewards.models.some((one) => one.model === model && one.kind === 'generative')
  return { ...draft, ...draftOfReward(reward, generative) }
}

/** Applies the texts of a stored sample once; a refetch does not overwrite edits. */
function useLoadedSample(
  id: string | null,
  onLoaded: (loaded: NonNullable<ReturnType<typeof draftOfSample>>) => void,
): { busy: boolean; problem: string | null } {
  const trpc = useTRPC()
  const sample = useQuery(
    trpc.samples.get.queryOptions(
      { id: id ?? '' },
      { enabled: id !== null, staleTime: Number.POSITIVE_INFINITY, retry: false },
    ),
  )
  const taken = useRef<string>(null)
  const loaded = useRef(onLoaded)
  loaded.current = onLoaded
  const { data } = sample
  const draft = useMemo(() => data && draftOfSample(data), [data])
  useEffect(() => {
    if (id === null) taken.current = null
    if (id === null || draft === undefined || taken.current === id) return
    taken.current = id
    if (draft !== null) loaded.current(draft)
  }, [id, draft])
  if (id === null) return { busy: false, problem: null }
  return {
    busy: sample.isLoading,
    problem:
      draft === null
        ? 'Retention removed the texts of this sample.'
        : sample.error && describeFailure(sample.error).message,
  }
}

function Outcome({ run, onRetry }: { run: Run; onRetry(): void }) {
  switch (run.state) {
    case 'none':
      return (
        <Empty icon={FlaskConical} title="No result yet">
          Score the sample to see the selected reward, the extracted answer, the comparison, and
          every request to a server.
        </Empty>
      )
    case 'running':
      return <Running since={run.since} onStop={run.stop} />
    case 'failed':
      return <FailureView error={run.error} onRetry={onRetry} />
    case 'done':
      return <TriedView tried={run.tried} response={run.response} />
  }
}

/** Shows the elapsed time after the first second, because a judge can take many seconds. */
function Running({ since, onStop }: { since: number; onStop(): void }) {
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setSeconds(Math.floor((Date.now() - since) / 1_000)), 250)
    return () => clearInterval(timer)
  }, [since])
  return (
    <div role="status" aria-label="Scoring" className="px-5 py-5">
      <div className="flex items-center gap-3">
        <Skeleton width={84} height={26} />
        <span className="num text-xs text-ink-3">
          Scoring{seconds > 0 && `, ${seconds} s of at most 60 s`}
        </span>
        <Button small className="ml-auto" onClick={onStop}>
          Stop
        </Button>
      </div>
      {[70, 94, 82, 60].map((percent) => (
        <span key={percent} className="block py-2" style={{ width: `${percent}%` }}>
          <Skeleton height={12} />
        </span>
      ))}
    </div>
  )
}
