import type { BatchViewDto } from '../../server/contract/pages.ts'
import { comparePairHref } from '../compare/compare-url.ts'
import { formatCount } from '../format/numbers.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Section } from '../ui/section.tsx'
import { BatchLink } from './batch-cells.tsx'

/** The batches with the same rollouts: the one this batch rescores, and those that rescore it. */
export function BatchRelations({
  batch,
}: {
  batch: Pick<BatchViewDto, 'batchId' | 'rescoredFrom' | 'rescores'>
}) {
  const { rescoredFrom, rescores } = batch
  if (rescoredFrom === null && rescores.length === 0) return null
  const rows = [
    ['Rescore of', rescoredFrom === null ? [] : [rescoredFrom]],
    ['Rescored as', rescores],
  ] as const
  const count = rescores.length + (rescoredFrom === null ? 0 : 1)
  return (
    <Section title="Same rollouts" note={formatCount(count)}>
      <dl className="px-5 pb-4">
        {rows.map(
          ([what, ids]) =>
            ids.length > 0 && (
              <div key={what} className="flex items-baseline gap-4 py-0.5">
                <dt className="w-32 shrink-0 text-ink-3">{what}</dt>
                <dd className="flex min-w-0 flex-wrap gap-x-3">
                  {ids.map((id) => (
                    <span key={id} className="inline-flex items-baseline gap-2">
                      <BatchLink batchId={id} />
                      <PageLink
                        href={
                          id === rescoredFrom
                            ? comparePairHref(id, batch.batchId)
                            : comparePairHref(batch.batchId, id)
                        }
                        aria-label={`Compare with ${id}`}
                        className="text-xs text-accent hover:underline"
                      >
                        compare
                      </PageLink>
                    </span>
                  ))}
                </dd>
              </div>
            ),
        )}
      </dl>
    </Section>
  )
}
