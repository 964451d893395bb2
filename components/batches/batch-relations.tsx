import type { BatchViewDto } from '../../server/wire/pages.ts'
import { formatCount } from '../format/numbers.ts'
import { Section } from '../ui/section.tsx'
import { BatchLink } from './batch-cells.tsx'

/** The other batches over the same rollouts: the one they come from, and those that scored them again. */
export function BatchRelations({
  batch,
}: {
  batch: Pick<BatchViewDto, 'rescoredFrom' | 'rescores'>
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
                    <BatchLink key={id} batchId={id} />
                  ))}
                </dd>
              </div>
            ),
        )}
      </dl>
    </Section>
  )
}
