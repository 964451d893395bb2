'use client'

import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useDeferredValue, useState } from 'react'
import type { RetentionDto, RetentionPreviewDto } from '../../server/contract/retention.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import { plural } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { useMay } from '../session/use-may.ts'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Checkbox, FieldAbout, TextField } from '../ui/field.tsx'
import { QueryView, type ViewedQuery } from '../ui/query-view.tsx'
import { Section } from '../ui/section.tsx'
import { Skeleton, TableSkeleton } from '../ui/skeleton.tsx'
import {
  type AgeName,
  RETENTION_FIELDS,
  readRetention,
  removedInWords,
  retentionDraft,
  spaceInWords,
} from './retention.prepare.ts'
import { Removals } from './retention-removals.tsx'
import { RetentionRuns } from './retention-runs.tsx'

export function RetentionView() {
  const trpc = useTRPC()
  const retention = useQuery(
    trpc.retention.get.queryOptions(undefined, {
      refetchInterval: ({ state }) =>
        state.data?.jobs.some((job) => job.state === 'running') ? 1_000 : 15_000,
    }),
  )
  return (
    <QueryView query={retention} skeleton={<TableSkeleton columns={3} rows={8} />}>
      {(data) => (
        <>
          <Policy key={data.changedAt} retention={data} />
          <RetentionRuns kept={data.kept} />
          <Removals jobs={data.jobs} />
        </>
      )}
    </QueryView>
  )
}

function Policy({ retention }: { retention: RetentionDto }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('admin')
  const [draft, setDraft] = useState(() => retentionDraft(retention.policy))
  const read = readRetention(draft)
  const errors: Partial<Record<AgeName, string>> = 'errors' in read ? read.errors : {}
  const policy = useDeferredValue('policy' in read ? read.policy : retention.policy)
  const changed = JSON.stringify(policy) !== JSON.stringify(retention.policy)
  const preview = useQuery(
    trpc.retention.preview.queryOptions(
      { policy },
      { enabled: refused === null, placeholderData: keepPreviousData, staleTime: 5_000 },
    ),
  )
  const [isConfirming, setIsConfirming] = useState(false)
  const readAgain = () => void queryClient.invalidateQueries(trpc.retention.pathFilter())
  const set = useMutation(trpc.retention.set.mutationOptions({ onSuccess: readAgain }))
  const start = useMutation(
    trpc.retention.start.mutationOptions({
      onSuccess: () => {
        setIsConfirming(false)
        readAgain()
      },
    }),
  )
  const failure = set.error && describeFailure(set.error)
  const running = retention.jobs.some(({ state }) => state === 'running')
  const takes = preview.data === undefined ? '' : removedInWords(preview.data)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if ('policy' in read) set.mutate(read.policy)
  }
  return (
    <Section
      title="Retention policy"
      note={
        retention.changedAt === null ? (
          'Default'
        ) : (
          <>
            Changed <Ago at={retention.changedAt} /> by {retention.changedBy}
          </>
        )
      }
    >
      <form onSubmit={submit} noValidate className="px-5 pb-5">
        <div className="grid gap-x-6 gap-y-4 sm:grid-cols-2 lg:grid-cols-4">
          {RETENTION_FIELDS.map(({ name, label, hint }) => (
            <TextField
              key={name}
              label={`${label}, days`}
              inputMode="numeric"
              placeholder="Forever"
              value={draft.ages[name]}
              disabled={refused !== null}
              title={refused ?? undefined}
              error={errors[name]}
              hint={hint}
              onChange={(event) => {
                setDraft({ ...draft, ages: { ...draft.ages, [name]: event.target.value } })
                set.reset()
              }}
            />
          ))}
        </div>
        <div className="mt-4">
          <Checkbox
            label="Keep run statistics"
            about="Keeps the statistics of removed batches, so run charts do not change."
            checked={draft.keepRollUps}
            disabled={refused !== null}
            onChange={(keepRollUps) => setDraft({ ...draft, keepRollUps })}
          />
        </div>
        <div className="mt-4 flex flex-wrap items-center gap-x-4 gap-y-2 border-t pt-4">
          <div className="min-w-0 flex-1 basis-80" aria-live="polite">
            <Preview preview={preview} refused={refused} changed={changed} />
          </div>
          <div className="flex items-center gap-2">
            {changed && (
              <Button small onClick={() => setDraft(retentionDraft(retention.policy))}>
                Discard
              </Button>
            )}
            <Button
              type="submit"
              small
              variant={changed ? 'primary' : 'plain'}
              refused={refused}
              disabled={!changed || 'errors' in read}
              busy={set.isPending}
            >
              Save
            </Button>
            <Button
              small
              refused={refused}
              disabled={changed || running || takes === ''}
              title={
                changed
                  ? 'Save the policy first.'
                  : running
                    ? 'A removal is already running.'
                    : preview.data && takes === ''
                      ? 'No data is old enough.'
                      : undefined
              }
              onClick={() => setIsConfirming(true)}
            >
              Remove now…
            </Button>
          </div>
        </div>
        <FieldAbout error={failure ? `${failure.message} ${failure.hint}` : undefined} />
      </form>
      <Confirm
        open={isConfirming}
        onClose={() => setIsConfirming(false)}
        title="Remove old data?"
        action="Remove data"
        busy={start.isPending}
        error={start.error && <FailureView compact error={start.error} />}
        onConfirm={() => start.mutate({})}
      >
        <p>
          {capitalized(takes)}. This cannot be undone. The service also applies the policy once an
          hour.
        </p>
        {preview.data && <p className="mt-2">Space: {spaceInWords(preview.data)}.</p>}
      </Confirm>
    </Section>
  )
}

function Preview({
  preview,
  refused,
  changed,
}: {
  preview: ViewedQuery<RetentionPreviewDto>
  refused: string | null
  changed: boolean
}) {
  if (refused !== null) return <p className="text-ink-3">{refused}</p>
  return (
    <QueryView query={preview} compact skeleton={<Skeleton width={280} />}>
      {(data) => <Previewed preview={data} changed={changed} />}
    </QueryView>
  )
}

function Previewed({ preview, changed }: { preview: RetentionPreviewDto; changed: boolean }) {
  const takes = removedInWords(preview)
  const { kept, underWay } = preview.skipped
  const skipped = [
    kept > 0 ? `${plural(kept, 'batch', 'batches')} of runs kept forever` : '',
    underWay > 0 ? `${plural(underWay, 'batch', 'batches')} in progress` : '',
  ].filter(Boolean)
  return (
    <>
      <p className="num">
        {takes === '' ? (
          <span className="text-ink-2">No data is old enough.</span>
        ) : (
          <>
            <span className="text-ink-3">{changed ? 'Would be removed: ' : 'To be removed: '}</span>
            {takes}
          </>
        )}
      </p>
      {takes !== '' && (
        <p className="num text-xs text-ink-3">{capitalized(spaceInWords(preview))}</p>
      )}
      {skipped.length > 0 && (
        <p className="num text-xs text-ink-3">Old but kept: {skipped.join(', ')}.</p>
      )}
    </>
  )
}
