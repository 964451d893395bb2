import type { Metadata } from 'next'
import { Suspense } from 'react'
import { ComparePage } from '../../../components/compare/compare-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Compare' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Compare" />}>
      <ComparePage />
    </Suspense>
  )
}
