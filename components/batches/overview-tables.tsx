'use client'

import type { BatchProgressDto } from '../../server/contract/pages.ts'
import type { BatchSummary } from '../../server/contract/trainer.ts'
import { formatCount, formatRate } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'
import { ColumnHeads } from '../ui/column-heads.tsx'
import { Scroll } from '../ui/scroll.tsx'
import { Section } from '../ui/section.tsx'
import { BatchStatusView } from '../ui/status.tsx'
import {
  BatchLink,
  BatchProgress,
  BatchTime,
  FailedCount,
  KindMarks,
  MeanStd,
  RunName,
} from './batch-cells.tsx'

export function ActiveBatches({ batches, total }: { batches: BatchProgressDto[]; total: number }) {
  const more = total > batches.length ? ` of ${formatCount(total)}` : ''
  return (
    <Section
      title={<PageLink href="/batches?status=active">Active batches</PageLink>}
      note={batches.length > 0 ? `${formatCount(batches.length)}${more}` : undefined}
    >
      {batches.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">No active batches.</p>
      ) : (
        <Scroll label="Active batches">
          <table className="grid-table">
            <ColumnHeads
              columns={[
                'Batch',
                'Run',
                { end: 'Step' },
                'Progress',
                { end: 'Groups completed' },
                { end: 'Failed' },
                { end: 'Mean ± std' },
                { end: 'Samples/s' },
                { end: 'Time' },
              ]}
            />
            <tbody>
              {batches.map((batch) => (
                <tr key={batch.batchId}>
                  <td>
                    <BatchLink batchId={batch.batchId} />
                  </td>
                  <td className="name">
                    <span className="flex items-center gap-x-2 max-sm:flex-wrap">
                      <RunName run={batch.run} />
                      <KindMarks of={batch} />
                    </span>
                  </td>
                  <td className="num end">{formatCount(batch.step)}</td>
                  <td>
                    <BatchProgress batch={batch} />
                  </td>
                  <td className="num end">
                    {formatCount(batch.groupsCompleted)}
                    <span className="unit">/{formatCount(batch.groups)}</span>
                  </td>
                  <td className="end">
                    <FailedCount
                      failed={batch.failed}
                      href={`/samples?batch=${batch.batchId}&status=failed`}
                    />
                  </td>
                  <td className="end">
                    <MeanStd mean={batch.mean} std={batch.std} />
                  </td>
                  <td className="num end">{formatRate(batch.samplesPerSecond)}</td>
                  <td className="end">
                    <BatchTime batch={batch} />
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

/** Hides columns in containers below 640 px, where they would cut off the end time. */
const WIDE = '@max-[640px]:hidden'

export function RecentBatches({
  batches,
  className,
}: {
  batches: BatchSummary[]
  className?: string
}) {
  return (
    <Section
      title={<PageLink href="/batches">Recent batches</PageLink>}
      className={`@container ${className ?? ''}`}
    >
      {batches.length === 0 ? (
        <p className="px-5 pb-5 text-ink-2">No ended batches.</p>
      ) : (
        <Scroll label="Recent batches">
          <table className="grid-table">
            <ColumnHeads
              columns={[
                'Batch',
                'Run',
                { end: 'Step', className: WIDE },
                'Status',
                { end: 'Mean ± std' },
                { end: 'Ended' },
              ]}
            />
            <tbody>
              {batches.map((batch) => (
                <tr key={batch.batchId}>
                  <td>
                    <BatchLink batchId={batch.batchId} />
                  </td>
                  <td className="name">
                    <span className="flex items-center gap-x-2 max-sm:flex-wrap">
                      <RunName run={batch.run} />
                      <KindMarks of={batch} />
                    </span>
                  </td>
                  <td className={`num end ${WIDE}`}>{formatCount(batch.step)}</td>
                  <td>
                    <BatchStatusView status={batch.status} />
                  </td>
                  <td className="end">
                    <MeanStd mean={batch.mean} std={batch.std} />
                  </td>
                  <td className="end text-ink-2">
                    <Ago at={batch.completedAt} />
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
