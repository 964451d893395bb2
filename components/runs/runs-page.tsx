'use client'

import { useQuery } from '@tanstack/react-query'
import { ListTree } from 'lucide-react'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { formatCount } from '../format/numbers.ts'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { SeededMark } from './seeded-mark.tsx'

/** Every training run that has handed over rollouts. */
export function RunsPage() {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions(undefined, { meta: { topics: ['batches'] } }))
  return (
    <>
      <PageHeader
        title="Runs"
        state={
          runs.data &&
          runs.data.length > 0 && (
            <span className="num text-ink-3">{formatCount(runs.data.length)}</span>
          )
        }
      />
      <QueryView query={runs} skeleton={<TableSkeleton columns={5} rows={6} />}>
        {(data) =>
          data.length === 0 ? (
            <Empty
              icon={ListTree}
              title="No run yet"
              actions={
                <PageLink href="/" className={buttonClass('primary')}>
                  Submit a first batch
                </PageLink>
              }
            >
              A run comes into being with its first batch: the name a trainer sends as{' '}
              <code className="font-mono text-xs">run</code>.
            </Empty>
          ) : (
            <Scroll label="Runs">
              <table className="grid-table">
                <thead>
                  <tr>
                    <th scope="col">Run</th>
                    <th scope="col" className="end">
                      Last step
                    </th>
                    <th scope="col" className="end">
                      Batches
                    </th>
                    <th scope="col" className="end">
                      Last batch
                    </th>
                    <th scope="col">
                      <span className="sr-only">Go on</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {data.map((run) => (
                    <tr key={run.name}>
                      <td className="font-medium">
                        <span className="inline-flex items-center gap-2">
                          <RunName run={run.name} />
                          {run.seeded && <SeededMark />}
                        </span>
                      </td>
                      <td className="num end">{formatCount(run.lastStep)}</td>
                      <td className="num end">{formatCount(run.batches)}</td>
                      <td className="end text-ink-2">
                        <Ago at={run.lastSubmittedAt} />
                      </td>
                      <td className="end">
                        <PageLink
                          href={`/samples?run=${encodeURIComponent(run.name)}&sort=worst`}
                          className="text-ink-2 hover:text-ink hover:underline"
                        >
                          Worst samples
                        </PageLink>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          )
        }
      </QueryView>
    </>
  )
}
