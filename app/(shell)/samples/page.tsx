import type { Metadata } from 'next'
import { Suspense } from 'react'
import { SamplesPage } from '../../../components/samples/samples-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Samples' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Samples" />}>
      <SamplesPage />
    </Suspense>
  )
}
