import type { Metadata } from 'next'
import { Suspense } from 'react'
import { PromptsPage } from '../../../../../components/prompts/prompts-page.tsx'
import { PageSkeleton } from '../../../../../components/shell/page-skeleton.tsx'

// The page is rendered per request, so that the filters of the URL are visible before any data.
type Props = { params: Promise<{ name: string }> }

export async function generateMetadata({ params }: Props): Promise<Metadata> {
  // Next decodes the parameters of `generateMetadata`, but not the parameters of `Page`.
  return { title: `Prompts of ${(await params).name}` }
}

export default async function Page({ params }: Props) {
  const name = decodeURIComponent((await params).name)
  return (
    <Suspense fallback={<PageSkeleton title="Prompts" />}>
      <PromptsPage run={name} />
    </Suspense>
  )
}
