'use client'

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Pin, PinOff, Trash2 } from 'lucide-react'
import { useState } from 'react'
import type { RetentionDto } from '../../server/contract/retention.ts'
import { MAX_LISTED_RUNS } from '../../server/contract/runs.ts'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount } from '../format/numbers.ts'
import { useMay } from '../session/use-may.ts'
import { ActionMenu } from '../ui/action-menu.tsx'
import { Ago } from '../ui/ago.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Confirm } from '../ui/dialog.tsx'
import { FailureView } from '../ui/failure-view.tsx'
import { TextField } from '../ui/field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { Skeleton, TableSkeleton } from '../ui/skeleton.tsx'
import { removedInWords, spaceInWords } from './retention.prepare.ts'

export function RetentionRuns({ kept }: { kept: RetentionDto['kept'] }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const refused = useMay('admin')
  const runs = useQuery(trpc.runs.list.queryOptions(undefined, { meta: { topics: ['batches'] } }))
  const [deleting, setDeleting] = useState<string | null>(null)
  const keep = useMutation(
    trpc.retention.keepRun.mutationOptions({
      onSuccess: () => void queryClient.invalidateQueries(trpc.retention.pathFilter()),
    }),
  )
  const keptBy = new Map(kept.map((row) => [row.run, row]))
  return (
    <Section
      title="Runs"
      note={
        kept.length === 0 ? 'Policy applies to all' : `${formatCount(kept.length)} kept forever`
      }
      className="border-t"
    >
      {keep.error && <FailureView compact error={keep.error} />}
      <QueryView query={runs} skeleton={<TableSkeleton columns={4} rows={4} />} compact>
        {(data) =>
          data.length === 0 ? (
            <p className="px-5 pb-5 text-ink-2">No runs yet.</p>
          ) : (
            <Scroll label="Runs" className="max-h-[420px] overflow-auto">
              <table className="grid-table">
                <ColumnHeads
                  columns={[
                    'Run',
                    { end: 'Batches' },
                    { end: 'Last batch' },
                    'Retention',
                    { hidden: 'Actions' },
                  ]}
                />
                <tbody>
                  {data.map((run) => {
                    const row = keptBy.get(run.name)
                    return (
                      <tr key={run.name}>
                        <td className="name font-medium">
                          <RunName run={run.name} />
                        </td>
                        <td className="num end">{formatCount(run.batches)}</td>
                        <td className="end text-ink-2">
                          <Ago at={run.lastSubmittedAt} />
                        </td>
                        <td>
                          {row === undefined ? (
                            <span className="text-ink-3">Policy</span>
                          ) : (
                            <span className="inline-flex items-center gap-1.5">
                              <Pin size={13} className="text-accent" aria-hidden />
                              Kept forever
                              <span className="text-ink-3">
                                by {row.keptBy}, <Ago at={row.keptAt} />
                              </span>
                            </span>
                          )}
                        </td>
                        <td className="end">
                          <ActionMenu
                            label={`Actions for ${run.name}`}
                            actions={[
                              {
                                label: row === undefined ? 'Keep forever' : 'Apply policy',
                                icon:
                                  row === undefined ? (
                                    <Pin size={14} aria-hidden />
                                  ) : (
                                    <PinOff size={14} aria-hidden />
                                  ),
                                refused,
                                onSelect: () =>
                                  keep.mutate({ run: run.name, keep: row === undefined }),
                              },
                              {
                                label: 'Delete run…',
                                icon: <Trash2 size={14} aria-hidden />,
                                danger: true,
                                apart: true,
                                refused,
                                onSelect: () => setDeleting(run.name),
                              },
                            ]}
                          />
                        </td>
                      </tr>
                    )
                  })}
                </tbody>
              </table>
              {data.length >= MAX_LISTED_RUNS && (
                <p className="px-5 py-3 text-xs text-ink-3">
                  Only the newest {formatCount(MAX_LISTED_RUNS)} runs are listed.
                </p>
              )}
            </Scroll>
          )
        }
      </QueryView>
      {deleting !== null && (
        <DeleteRun key={deleting} run={deleting} onClose={() => setDeleting(null)} />
      )}
    </Section>
  )
}

function DeleteRun({ run, onClose }: { run: string; onClose(): void }) {
  const trpc = useTRPC()
  const queryClient = useQueryClient()
  const [typed, setTyped] = useState('')
  const [missing, setMissing] = useState(false)
  const preview = useQuery(trpc.retention.preview.queryOptions({ run }))
  const remove = useMutation(
    trpc.retention.deleteRun.mutationOptions({
      onSuccess: () => {
        void queryClient.invalidateQueries(trpc.retention.pathFilter())
        onClose()
      },
    }),
  )
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Delete ${run}?`}
      action="Delete run"
      busy={remove.isPending}
      error={remove.error && <FailureView compact error={remove.error} />}
      onConfirm={() => {
        if (typed === run) remove.mutate({ run, confirm: typed })
        else setMissing(true)
      }}
    >
      <QueryView query={preview} compact skeleton={<Skeleton width={260} />}>
        {(data) => (
          <p>
            All data of the run is deleted: {removedInWords(data) || 'no batches'}. This cannot be
            undone. {spaceInWords(data) && `Disk space: ${spaceInWords(data)}.`}
          </p>
        )}
      </QueryView>
      <div className="mt-3">
        <TextField
          label="Confirm run name"
          mono
          autoFocus
          value={typed}
          placeholder={run}
          error={missing ? 'The name does not match.' : undefined}
          onChange={(event) => {
            setTyped(event.target.value)
            setMissing(false)
            remove.reset()
          }}
        />
      </div>
    </Confirm>
  )
}
