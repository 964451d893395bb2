'use client'

import { useQuery } from '@tanstack/react-query'
import { GitCompareArrows, ListTree } from 'lucide-react'
import { useState } from 'react'
import { MAX_COMPARED_RUNS } from '../../server/contract/compare.ts'
import type { RunRowDto } from '../../server/contract/runs.ts'
import { useTRPC } from '../api/trpc.ts'
import { RunName } from '../batches/batch-cells.tsx'
import { compareRunsHref } from '../compare/compare-url.ts'
import { formatCount } from '../format/numbers.ts'
import { PageHeader } from '../shell/page-header.tsx'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { buttonClass } from '../ui/button.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Empty } from '../ui/empty.tsx'
import { FilterLine, fitsFilter } from '../ui/filter-field.tsx'
import { QueryView } from '../ui/query-view.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { TableSkeleton } from '../ui/skeleton.tsx'
import { type UrlCodec, useUrl } from '../url/use-url.ts'
import { runSamplesHref } from './run-url.ts'
import { SeededMark } from './seeded-mark.tsx'

/** A count of non-training batches; zero is paler. */
function BatchCount({ n }: { n: number }) {
  return <td className={`num end ${n === 0 ? 'text-ink-3' : ''}`}>{formatCount(n)}</td>
}

/** A link to the lowest scores of a run: training samples where it has any, never rescores. */
function worstHref({ name, batches }: RunRowDto): string {
  const run = { name, ...(batches > 0 && { split: 'train' as const }) }
  return `${runSamplesHref(run)}&sort=worst`
}

const runsUrl: UrlCodec<{ named: string }> = {
  parse: (params) => ({ named: params.get('named') ?? '' }),
  write({ named }) {
    const params = new URLSearchParams()
    if (named !== '') params.set('named', named)
    return params
  },
}

export function RunsPage() {
  const trpc = useTRPC()
  const runs = useQuery(trpc.runs.list.queryOptions(undefined, { meta: { topics: ['batches'] } }))
  const [chosen, setChosen] = useState<readonly string[]>([])
  const isFull = chosen.length >= MAX_COMPARED_RUNS
  const [{ named }, setUrl] = useUrl(runsUrl)
  const fitting = (runs.data ?? []).filter((run) => fitsFilter(named, run.name))
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
        actions={
          chosen.length > 0 && (
            <PageLink
              href={compareRunsHref(chosen)}
              className={buttonClass('primary', true)}
              title={isFull ? `At most ${MAX_COMPARED_RUNS} runs` : undefined}
            >
              <GitCompareArrows size={14} aria-hidden />
              Compare {chosen.length}
              {isFull && ' (maximum)'}
            </PageLink>
          )
        }
      />
      <QueryView query={runs} skeleton={<TableSkeleton columns={7} rows={6} />}>
        {(data) =>
          data.length === 0 ? (
            <Empty
              icon={ListTree}
              title="No runs yet"
              actions={
                <PageLink href="/" className={buttonClass('primary')}>
                  Submit a first batch
                </PageLink>
              }
            >
              A run is created by its first batch. Its name is the field{' '}
              <code className="font-mono text-xs">run</code> of that batch.
            </Empty>
          ) : (
            <>
              <FilterLine
                label="Run name"
                value={named}
                shown={fitting.length}
                total={data.length}
                onChange={(next) => setUrl({ named: next })}
              />
              <Scroll label="Runs">
                <table className="grid-table">
                  <ColumnHeads
                    columns={[
                      { hidden: 'Compare', className: 'w-8 !pr-0' },
                      'Run',
                      { end: 'Last step' },
                      { end: 'Training batches' },
                      { end: 'Validation' },
                      { end: 'Rescored' },
                      { end: 'Last batch' },
                      { hidden: 'Actions' },
                    ]}
                  />
                  <tbody>
                    {fitting.map((run) => (
                      <tr key={run.name}>
                        <td className="w-8 !pr-0">
                          <input
                            type="checkbox"
                            aria-label={`Compare ${run.name}`}
                            checked={chosen.includes(run.name)}
                            disabled={isFull && !chosen.includes(run.name)}
                            onChange={(event) =>
                              setChosen(
                                event.target.checked
                                  ? [...chosen, run.name]
                                  : chosen.filter((name) => name !== run.name),
                              )
                            }
                            className="block size-3.5 accent-(--accent-fill)"
                          />
                        </td>
                        <td className="font-medium">
                          <span className="inline-flex items-center gap-2">
                            <RunName run={run.name} />
                            {run.seeded && <SeededMark />}
                          </span>
                        </td>
                        <td className="num end">{formatCount(run.lastStep)}</td>
                        <td className="num end">{formatCount(run.batches)}</td>
                        <BatchCount n={run.validationBatches} />
                        <BatchCount n={run.rescoredBatches} />
                        <td className="end text-ink-2">
                          <Ago at={run.lastSubmittedAt} />
                        </td>
                        <td className="end">
                          <PageLink
                            href={worstHref(run)}
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
            </>
          )
        }
      </QueryView>
    </>
  )
}
