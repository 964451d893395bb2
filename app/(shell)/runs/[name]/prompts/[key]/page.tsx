import type { Metadata } from 'next'
import { Suspense } from 'react'
import { PromptPage } from '../../../../../../components/prompts/prompt-page.tsx'
import { PageSkeleton } from '../../../../../../components/shell/page-skeleton.tsx'

// Rendered per request: a cached shell per prompt would mean many thousands of shells per run.
type Props = { params: Promise<{ name: string; key: string }> }

export async function generateMetadata({ params }: Props): Promise<Metadata> {
  // Next decodes the parameters here, unlike those of the page.
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
