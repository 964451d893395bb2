'use client'

import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import type { SamplesByBatchDto } from '../../server/wire/rescore.ts'
import { failureText } from '../api/failure.ts'
import { useTRPC, useTRPCClient } from '../api/trpc.ts'
import { RewardField, RewardOptions, useRewardChoices } from '../batches/reward-choices.tsx'
import { readReward } from '../batches/reward-text.prepare.ts'
import { formatCount, plural } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Sheet } from '../ui/dialog.tsx'
import { Choices, Select } from '../ui/field.tsx'
import { SheetForm } from '../ui/sheet-form.tsx'
import type { Target } from './selection.ts'

/** Batches that one press rescores. */
const MOST_BATCHES = 20

/** Scores the chosen samples by another reward: a new batch for each that they are of. */
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
    <Sheet open={open} onClose={onClose} title="Rescore the samples">
      {open && <RescoreForm target={target} onClose={onClose} />}
    </Sheet>
  )
}

interface Outcome {
  batchId: string
  result: { batchId: string; accepted: number; groups: number; takenAlong: number } | null
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
  // One key a dialog: pressing twice, or again after a lost answer, makes each batch once.
  const [key, setKey] = useState(() => crypto.randomUUID())
  const change = (next: string) => {
    setText(next)
    setError(undefined)
    setKey(crypto.randomUUID())
    setDone([])
  }
  const chosen = choices.find((choice) => choice.text === text)
  const batches = placed?.batches.slice(0, MOST_BATCHES) ?? []
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
          result: { ...result, takenAlong: result.takenAlong ?? 0 },
          error: null,
        })
      } catch (failure) {
        outcomes.push({ batchId, result: null, error: failureText(failure) })
      }
      setDone([...outcomes])
    }
    setBusy(false)
    await queryClient.invalidateQueries({ queryKey: trpc.batches.list.queryKey() })
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
      <p className="num text-ink-2">
        {placed === undefined
          ? 'Counting what fits…'
          : `${plural(samples, 'sample')} of ${plural(batches.length, 'batch', 'batches')}. Each batch gives a new one over these rollouts, linked to it; nothing that is there changes.`}
      </p>
      {placed !== undefined && (
        <ul className="num max-h-40 space-y-0.5 overflow-y-auto text-xs" aria-label="By batch">
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
      )}
      {placed !== undefined && (placed.more || placed.batches.length > MOST_BATCHES) && (
        <p className="text-warn">
          More fit: these are the newest. Batches beyond {MOST_BATCHES}, and samples beyond 10,000,
          are left out; rescore whole batches from their own page.
        </p>
      )}
      <Select
        label="Score by"
        value={chosen?.text ?? ''}
        onChange={(event) => change(event.target.value)}
      >
        <option value="">{text === '' ? 'Choose a reward' : 'as written below'}</option>
        <RewardOptions choices={choices} />
      </Select>
      <RewardField rows={6} value={text} error={error} onChange={change} />
      <Choices
        legend="Their groups"
        name="rescore-groups"
        value={groups}
        options={[
          {
            value: 'whole',
            label: 'Whole groups',
            about: 'The other members come along, so that advantages are of the whole group.',
          },
          {
            value: 'chosen',
            label: 'Only what is selected',
            about:
              'Advantages are of what is left of each group. A reward that looks at whole groups takes them all the same.',
          },
        ]}
        onChange={(next) => {
          setGroups(next)
          setDone([])
        }}
      />
      <div role="status">
        {done.length > 0 && (
          <ul aria-label="Rescored" className="num space-y-1">
            {done.map(({ batchId, result, error }) => (
              <li key={batchId} className={error === null ? '' : 'text-bad'}>
                <span className="font-mono text-xs">{batchId}</span>
                {' → '}
                {result === null ? (
                  error
                ) : (
                  <>
                    <PageLink
                      href={`/batches/${result.batchId}`}
                      className="font-mono text-xs text-accent hover:underline"
                    >
                      {result.batchId}
                    </PageLink>{' '}
                    {plural(result.accepted, 'sample')} in {plural(result.groups, 'group')}
                    {result.takenAlong > 0 &&
                      `, ${formatCount(result.takenAlong)} of them came along with their groups`}
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
    more: false,
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
