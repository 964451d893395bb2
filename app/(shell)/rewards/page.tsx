import type { Metadata } from 'next'
import { Suspense } from 'react'
import { RewardsPage } from '../../../components/rewards/rewards-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Rewards' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Rewards" />}>
      <RewardsPage />
    </Suspense>
  )
}
