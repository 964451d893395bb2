import type { Metadata } from 'next'
import { Suspense } from 'react'
import { PlannerPage } from '../../../components/planner/planner-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Planner' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Planner" />}>
      <PlannerPage />
    </Suspense>
  )
}
