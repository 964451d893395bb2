'use client'

import { useMutation, useQueryClient } from '@tanstack/react-query'
import { MAX_LISTED_REMOVALS, type RetentionJobDto } from '../../server/contract/retention.ts'
import { useTRPC } from '../api/trpc.ts'
import { formatBytes, formatPercent, newestText } from '../format/numbers.ts'
import { capitalized } from '../format/text.ts'
import { useMay } from '../session/use-may.ts'
import { Ago } from '../ui/ago.tsx'
import { Button } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { Quantity } from '../ui/quantity.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { SegmentBar } from '../ui/segment-bar.tsx'
import { progressOf, removedInWords } from './retention.prepare.ts'

export function Removals({ jobs }: { jobs: readonly RetentionJobDto[] }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('admin')
  const cancel = useMutation(
    trpc.retention.cancel.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.retention.pathFilter()),
    }),
  )
  return (
    <Section
      title="Removals"
      note={
        jobs.length > 0 ? newestText(jobs.length, jobs.length >= MAX_LISTED_REMOVALS) : undefined
      }
      className="-mt-px border-t"
    >
      {cancel.error && <FailureView compact error={cancel.error} />}
      {jobs.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">No removals yet.</p>
      ) : (
        <Scroll label="Removals">
          <table className="grid-table">
            <ColumnHeads
              columns={[
                'Started',
                'Scope',
                'State',
                'Removed',
                { end: 'Freed' },
                { end: 'Reusable' },
                { hidden: 'Actions' },
              ]}
            />
            <tbody>
              {jobs.map((job) => (
                <tr key={job.id} data-removal={job.id}>
                  <td className="text-ink-2">
                    <Ago at={job.createdAt} /> by {job.requestedBy}
                  </td>
                  <td className="font-medium">
                    {job.kind === 'run' ? `Run ${job.run}` : 'Policy'}
                  </td>
                  <td>
                    <State job={job} />
                  </td>
                  <td className="num">{capitalized(removedInWords(job.removed)) || 'Nothing'}</td>
                  <td className="end">
                    <Quantity of={formatBytes(job.removed.freedBytes)} />
                  </td>
                  <td
                    className="end"
                    title="Estimate. The space stays in the database files and is reused."
                  >
                    <Quantity of={formatBytes(job.removed.reusableBytes)} />
                  </td>
                  <td className="end">
                    {job.state === 'running' && (
                      <Button
                        small
                        refused={refused}
                        busy={cancel.isPending}
                        title="Keeps batches whose removal has not begun."
                        onClick={() => cancel.mutate({ id: job.id })}
                      >
                        Stop
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </Section>
  )
}

function State({ job }: { job: RetentionJobDto }) {
  if (job.state !== 'running') {
    return (
      <span className={job.state === 'done' ? 'text-ok' : 'text-ink-2'}>
        {capitalized(job.state)}
      </span>
    )
  }
  if (job.problem !== null) {
    return (
      <span className="text-warn" title={job.problem}>
        Failed, retrying
      </span>
    )
  }
  const part = progressOf(job)
  return (
    <span className="inline-flex items-center gap-2 text-accent">
      <SegmentBar
        role="progressbar"
        aria-label="Removal progress"
        aria-valuemin={0}
        aria-valuemax={100}
        {...(part === null ? {} : { 'aria-valuenow': Math.round(part * 100) })}
        className="h-1.5 w-20"
        segments={[
          { key: 'removed', share: part ?? 0, className: 'bg-accent quick transition-[width]' },
        ]}
      />
      <span className="num">
        {part === null ? 'Removing' : <Quantity of={formatPercent(part)} />}
      </span>
    </span>
  )
}
