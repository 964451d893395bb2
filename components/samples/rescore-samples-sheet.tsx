'use client'

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import type { SamplesByBatchDto } from '../../server/contract/rescore.ts'
import { failureText } from '../api/failure.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { RewardField, useRewardChoices } from '../batches/reward-choices.tsx'
import { readReward } from '../batches/reward-text.prepare.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { Choices } from '../ui/field.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Select } from '../ui/select.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import { MatchCount } from './match-count.tsx'
import type { Target } from './selection.ts'

const MAX_BATCHES = 20

/** Rescores the selected samples with another reward: one new batch per source batch. */
export function RescoreSamplesSheet({
  target,
  open,
  onClose,
}: {
  target: Target
  open: boolean
  onClose(): void
}) {
  return (
    <Sheet open={open} onClose={onClose} title="Rescore samples">
      {open && <RescoreForm target={target} onClose={onClose} />}
    </Sheet>
  )
}

interface Outcome {
  batchId: string
  result: { batchId: string; accepted: number; groups: number; addedGroupMembers: number } | null
  error: string | null
}

function RescoreForm({ target, onClose }: { target: Target; onClose(): void }) {
  const trpc = useTRPC()
  const client = useTRPCClient()
  const queryClient = useQueryClient()
  const choices = useRewardChoices()
  const byFilter = useQuery({
    ...trpc.samples.byBatch.queryOptions('filter' in target ? target.filter : {}),
    enabled: 'filter' in target,
  })
  const placed: SamplesByBatchDto | undefined = useMemo(
    () => ('ids' in target ? placesOf(target.ids) : byFilter.data),
    [target, byFilter.data],
  )
  const [text, setText] = useState('')
  const [groups, setGroups] = useState<'whole' | 'chosen'>('whole')
  const [error, setError] = useState<string>()
  const [busy, setBusy] = useState(false)
  const [done, setDone] = useState<Outcome[]>([])
  // Repeated submits of an unchanged form share this idempotency key, so they create each batch once.
  const [key, setKey] = useState(() => crypto.randomUUID())
  const change = (next: string) => {
    setText(next)
    setError(undefined)
    setKey(crypto.randomUUID())
    setDone([])
  }
  const batches = placed?.batches.slice(0, MAX_BATCHES) ?? []
  const submit = async () => {
    const read = readReward(text)
    if ('error' in read) {
      setError(read.error)
      return
    }
    setError(undefined)
    setBusy(true)
    const outcomes: Outcome[] = []
    for (const { batchId } of batches) {
      try {
        const result = await client.batches.rescore.mutate({
          batchId,
          reward: read.reward as never,
          idempotencyKey: `${key} ${batchId} ${groups}`,
          select: { ...selectOf(target, batchId), wholeGroups: groups === 'whole' },
        })
        outcomes.push({
          batchId,
          result: { ...result, addedGroupMembers: result.addedGroupMembers ?? 0 },
          error: null,
        })
      } catch (failure) {
        outcomes.push({ batchId, result: null, error: failureText(failure) })
      }
      setDone([...outcomes])
    }
    setBusy(false)
    await queryClient.invalidateQueries(trpc.batches.list.infiniteQueryFilter())
  }
  const samples = batches.reduce((sum, batch) => sum + batch.samples, 0)
  return (
    <SheetForm
      action="Rescore"
      busy={busy}
      disabled={batches.length === 0 || text.trim() === ''}
      onSubmit={() => void submit()}
      onClose={onClose}
    >
      {placed === undefined ? (
        <MatchCount query={byFilter}>{() => null}</MatchCount>
      ) : (
        <p className="num text-ink-2">
          {plural(samples, 'sample')} of {plural(batches.length, 'batch', 'batches')}. Creates a
          new, linked batch for each of these batches; existing batches do not change.
        </p>
      )}
      {placed !== undefined && (
        <Scroll label="By batch" className="max-h-40 overflow-y-auto">
          <ul className="num space-y-0.5 text-xs">
            {batches.map(({ batchId, samples, ofBatch }) => (
              <li key={batchId}>
                <span className="font-mono">{batchId}</span>{' '}
                <span className="text-ink-2">
                  {formatCount(samples)}
                  {ofBatch > 0 && ` of ${plural(ofBatch, 'sample')}`}
                </span>
              </li>
            ))}
          </ul>
        </Scroll>
      )}
      {placed !== undefined && (placed.hasMore || placed.batches.length > MAX_BATCHES) && (
        <p className="text-warn">
          More samples match. Only the newest 10,000 samples are included, from at most{' '}
          {MAX_BATCHES} batches. To rescore a whole batch, open its page.
        </p>
      )}
      <Select
        label="Reward"
        searchable
        value={text}
        options={choices}
        placeholder={text === '' ? 'Select a reward' : 'Custom JSON'}
        onChange={change}
      />
      <RewardField rows={6} value={text} error={error} onChange={change} />
      <Choices
        legend="Groups"
        name="rescore-groups"
        value={groups}
        options={[
          {
            value: 'whole',
            label: 'Whole groups',
            about: 'Adds the other samples of each group, so advantages cover whole groups.',
          },
          {
            value: 'chosen',
            label: 'Selected samples only',
            about:
              'Advantages cover only the selected samples of each group. Rewards that score whole groups still add the other samples.',
          },
        ]}
        onChange={(next) => {
          setGroups(next)
          setDone([])
        }}
      />
      <div role="status">
        {done.length > 0 && (
          <ul aria-label="Rescored batches" className="num space-y-1">
            {done.map(({ batchId, result, error }) => (
              <li key={batchId} className={error === null ? '' : 'text-bad'}>
                <span className="font-mono text-xs">{batchId}</span>
                {' → '}
                {result === null ? (
                  <span role="alert">{error}</span>
                ) : (
                  <>
                    <PageLink
                      href={`/batches/${result.batchId}`}
                      className="font-mono text-xs text-accent hover:underline"
                    >
                      {result.batchId}
                    </PageLink>{' '}
                    {plural(result.accepted, 'sample')} in {plural(result.groups, 'group')}
                    {result.addedGroupMembers > 0 &&
                      `, ${formatCount(result.addedGroupMembers)} of them added with their groups`}
                  </>
                )}
              </li>
            ))}
          </ul>
        )}
      </div>
    </SheetForm>
  )
}

function placesOf(ids: readonly string[]): SamplesByBatchDto {
  const batches = Map.groupBy(ids, (id) => id.slice(0, id.indexOf('-')))
  return {
    batches: [...batches].map(([batchId, mine]) => ({ batchId, samples: mine.length, ofBatch: 0 })),
    hasMore: false,
  }
}

function selectOf(target: Target, batchId: string) {
  if ('ids' in target) {
    return {
      indexes: target.ids
        .filter((id) => id.startsWith(`${batchId}-`))
        .map((id) => Number(id.slice(batchId.length + 1))),
    }
  }
  const { batch, run, step, stepTo, ...filter } = target.filter
  return { filter }
}
