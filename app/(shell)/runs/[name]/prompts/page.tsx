import type { Metadata } from 'next'
import { Suspense } from 'react'
import { PromptsPage } from '../../../../../components/prompts/prompts-page.tsx'
import { PageSkeleton } from '../../../../../components/shell/page-skeleton.tsx'

// Not a cached shell: the filters of the address are on the page before any data.
type Props = { params: Promise<{ name: string }> }

export async function generateMetadata({ params }: Props): Promise<Metadata> {
  return { title: `Prompts of ${decodeURIComponent((await params).name)}` }
}

export default async function Page({ params }: Props) {
  const name = decodeURIComponent((await params).name)
  return (
    <Suspense fallback={<PageSkeleton title="Prompts" />}>
      <PromptsPage run={name} />
    </Suspense>
  )
}
