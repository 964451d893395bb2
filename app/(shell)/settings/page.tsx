import type { Metadata } from 'next'
import { Suspense } from 'react'
import { SettingsPage } from '../../../components/settings/settings-page.tsx'
import { PageSkeleton } from '../../../components/shell/page-skeleton.tsx'

export const metadata: Metadata = { title: 'Settings' }

export default function Page() {
  return (
    <Suspense fallback={<PageSkeleton title="Settings" />}>
      <SettingsPage />
    </Suspense>
  )
}
