'use client'

import { useQuery } from '@tanstack/react-query'
import { useTRPC } from '../api/trpc.ts'
import { BatchLink } from '../batches/batch-cells.tsx'
import { RewardOf } from '../compare/batch-choice.tsx'
import { comparePairHref } from '../compare/compare-url.ts'
import { formatCount, formatScore } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { BatchStatusView } from '../ui/status.tsx'

export function RunRescores({ run }: { run: string }) {
  const trpc = useTRPC()
  const pairs = useQuery(
    trpc.compare.candidates.queryOptions({ run }, { meta: { topics: ['batches'] } }),
  )
  const recent = pairs.data?.recent ?? []
  if (recent.length === 0) return null
  return (
    <Section
      className="border-t"
      title="Rescored batches"
      note={`Newest ${formatCount(recent.length)}; not included in charts and figures`}
    >
      <Scroll label="Rescored batches">
        <table className="grid-table">
          <ColumnHeads
            columns={[
              'Batch',
              'Rescored from',
              'Reward',
              'Status',
              { end: 'Step' },
              { end: 'Samples' },
              { end: 'Mean' },
              { end: 'Original mean' },
              { end: 'Rescored' },
              { hidden: 'Compare' },
            ]}
          />
          <tbody>
            {recent.map(({ first, second }) => (
              <tr key={second.batchId}>
                <td>
                  <BatchLink batchId={second.batchId} />
                </td>
                <td>
                  <BatchLink batchId={first.batchId} />
                </td>
                <td>
                  <span className="flex max-w-72">
                    <RewardOf batch={second} />
                  </span>
                </td>
                <td>
                  <BatchStatusView status={second.status} />
                </td>
                <td className="num end">{formatCount(second.step)}</td>
                <td className="num end">{formatCount(second.samples)}</td>
                <td className="num end">{formatScore(second.mean)}</td>
                <td className="num end text-ink-2">{formatScore(first.mean)}</td>
                <td className="end text-ink-2">
                  <Ago at={second.submittedAt} />
                </td>
                <td className="end">
                  <PageLink
                    href={comparePairHref(first.batchId, second.batchId)}
                    aria-label={`Compare ${first.batchId} and ${second.batchId}`}
                    className="text-accent hover:underline"
                  >
                    Compare
                  </PageLink>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </Section>
  )
}
