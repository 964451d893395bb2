import type { Metadata } from 'next'
import { Suspense } from 'react'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'
import { WorkersPage } from '../../../components/workers/workers-page.tsx'

export const metadata: Metadata = { title: 'Workers' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Workers" />}>
      <WorkersPage />
    </Suspense>
  )
}
