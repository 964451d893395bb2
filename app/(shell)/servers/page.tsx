import type { Metadata } from 'next'
import { Suspense } from 'react'
import { ServersPage } from '../../../components/servers/servers-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Servers' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Servers" />}>
      <ServersPage />
    </Suspense>
  )
}
