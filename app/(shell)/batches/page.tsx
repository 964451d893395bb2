import type { Metadata } from 'next'
import { Suspense } from 'react'
import { BatchesPage } from '../../../components/batches/batches-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Batches' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Batches" />}>
      <BatchesPage />
    </Suspense>
  )
}
