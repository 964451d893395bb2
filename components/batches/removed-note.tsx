import { Archive } from 'lucide-react'
import type { BatchViewDto } from '../../server/contract/pages.ts'
import { PageLink } from '../shell/page-link.tsx'
import { Ago } from '../ui/ago.tsx'

export function RemovedNote({
  batch,
}: {
  batch: Pick<BatchViewDto, 'textsRemovedAt' | 'samplesRemovedAt'>
}) {
  const { textsRemovedAt, samplesRemovedAt } = batch
  if (textsRemovedAt === null && samplesRemovedAt === null) return null
  return (
    <p className="flex items-start gap-2.5 border-b bg-sunken px-5 py-2.5 text-ink-2">
      <Archive size={15} className="mt-0.5 shrink-0 text-ink-3" aria-hidden />
      <span>
        {samplesRemovedAt === null
          ? 'The texts of this batch were removed by retention '
          : 'The samples and groups of this batch were removed by retention '}
        <Ago at={samplesRemovedAt ?? textsRemovedAt} />.{' '}
        {samplesRemovedAt === null
          ? 'Scores, groups and attempts are kept.'
          : 'Its statistics and its step on the run page are kept.'}{' '}
        <PageLink href="/settings?tab=retention" className="underline underline-offset-2">
          Retention settings
        </PageLink>
      </span>
    </p>
  )
}
