'use client'

import { TableSkeleton } from '../ui/skeleton.tsx'
import { PageHeader } from './page-header.tsx'

/** A skeleton while the page state is read from the URL. */
export function PageSkeleton({ title }: { title: string }) {
  return (
    <>
      <PageHeader title={title} />
      <div className="h-11 border-b" />
      <TableSkeleton columns={8} rows={14} />
    </>
  )
}
