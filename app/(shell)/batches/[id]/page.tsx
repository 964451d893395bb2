import type { Metadata } from 'next'
import { notFound } from 'next/navigation'
import { BatchPage } from '../../../../components/batches/batch-page.tsx'

// The page is a static shell, cached per batch. Its content arrives over tRPC.
export const dynamic = 'force-static'
export const dynamicParams = true

export function generateStaticParams(): { id: string }[] {
  return []
}

type Props = { params: Promise<{ id: string }> }

export async function generateMetadata({ params }: Props): Promise<Metadata> {
  return { title: (await params).id }
}

export default async function Page({ params }: Props) {
  const { id } = await params
  if (!/^b\d{1,18}$/.test(id)) notFound()
  return <BatchPage batchId={id} />
}
