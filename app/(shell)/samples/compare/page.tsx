import type { Metadata } from 'next'
import { Suspense } from 'react'
import { SideBySidePage } from '../../../../components/samples/side-by-side/side-by-side-page.tsx'
import { PageSkeleton } from '../../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Samples side by side' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Side by side" />}>
      <SideBySidePage />
    </Suspense>
  )
}
