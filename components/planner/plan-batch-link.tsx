import { ChartGantt } from 'lucide-react'
import { PageLink } from '../shell/page-link.tsx'
import { buttonClass } from '../ui/button.tsx'
import { planBatchHref } from './planner-url.ts'

/** From a batch to the planner with its latencies. */
export function PlanBatchLink({ batchId }: { batchId: string }) {
  return (
    <PageLink
      href={planBatchHref(batchId)}
      title="What would overlap save?"
      className={buttonClass('plain', true)}
    >
      <ChartGantt size={14} aria-hidden />
      <span className="max-xl:sr-only">What would overlap save?</span>
    </PageLink>
  )
}
