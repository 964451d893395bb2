import type { Metadata } from 'next'
import { Suspense } from 'react'
import { PromptPage } from '../../../../../../components/prompts/prompt-page.tsx'
import { PageSkeleton } from '../../../../../../components/shell/page-skeleton.tsx'

// The page is rendered per request, because a cached shell per prompt would mean thousands of shells per run.
type Props = { params: Promise<{ name: string; key: string }> }

export async function generateMetadata({ params }: Props): Promise<Metadata> {
  // Next decodes the parameters of `generateMetadata`, but not the parameters of `Page`.
  return { title: `Prompt of ${(await params).name}` }
}

export default async function Page({ params }: Props) {
  const { name, key } = await params
  return (
    <Suspense fallback={<PageSkeleton title="Prompt" />}>
      <PromptPage run={decodeURIComponent(name)} promptKey={decodeURIComponent(key)} />
    </Suspense>
  )
}
