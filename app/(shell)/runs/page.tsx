import type { Metadata } from 'next'
import { Suspense } from 'react'
import { RunsPage } from '../../../components/runs/runs-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Runs' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Runs" />}>
      <RunsPage />
    </Suspense>
  )
}
