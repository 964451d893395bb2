'use client'

import { TableSkeleton } from '../ui/skeleton.tsx'
import { PageHeader } from './page-header.tsx'

export function PageSkeleton({ title }: { title: string }) {
  return (
    <>
      <PageHeader title={title} />
      <div className="h-11 border-b" />
      <TableSkeleton columns={8} rows={14} />
    </>
  )
}
