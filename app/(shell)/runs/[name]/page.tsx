import type { Metadata } from 'next'
import { Suspense } from 'react'
import { RunPage } from '../../../../components/runs/run-page.tsx'
import { PageSkeleton } from '../../../../components/shell/page-skeleton.tsx'

// The page is a static shell, cached per run. Its content arrives over tRPC.
export const dynamic = 'force-static'
export const dynamicParams = true

export function generateStaticParams(): { name: string }[] {
  return []
}

type Props = { params: Promise<{ name: string }> }

export async function generateMetadata({ params }: Props): Promise<Metadata> {
  // Next decodes the parameters of `generateMetadata`, but not the parameters of `Page`.
  return { title: (await params).name }
}

export default async function Page({ params }: Props) {
  const name = decodeURIComponent((await params).name)
  return (
    <Suspense fallback={<PageSkeleton title="Run" />}>
      <RunPage name={name} />
    </Suspense>
  )
}
