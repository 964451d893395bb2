import type { Metadata } from 'next'
import { Suspense } from 'react'
import { MonitorsPage } from '../../../components/monitors/monitors-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Monitors' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Monitors" />}>
      <MonitorsPage />
    </Suspense>
  )
}
