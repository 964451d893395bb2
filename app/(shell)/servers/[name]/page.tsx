import type { Metadata } from 'next'
import { notFound } from 'next/navigation'
import { Suspense } from 'react'
import { ServerPage } from '../../../../components/servers/server-page.tsx'
import { readServerRef } from '../../../../components/servers/server-words.ts'
import { PageSkeleton } from '../../../../components/shell/page-skeleton.tsx'

// The page is a static shell, cached per server. Its content arrives over tRPC.
export const dynamic = 'force-static'
export const dynamicParams = true

export function generateStaticParams(): { name: string }[] {
  return []
}

type Props = { params: Promise<{ name: string }> }

export async function generateMetadata({ params }: Props): Promise<Metadata> {
  const ref = readServerRef((await params).name)
  return { title: ref === null ? 'Server' : 'name' in ref ? ref.name : ref.id }
}

export default async function Page({ params }: Props) {
  const ref = readServerRef((await params).name)
  if (ref === null) notFound()
  return (
    <Suspense fallback={<PageSkeleton title="Server" />}>
      <ServerPage serverRef={ref} />
    </Suspense>
  )
}
