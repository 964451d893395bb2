'use client'

import { MapPinOff } from 'lucide-react'
import { buttonClass } from '../ui/button.tsx'
import { Empty } from '../ui/empty.tsx'
import { PageHeader } from './page-header.tsx'
import { PageLink } from './page-link.tsx'
import { NAVIGATION } from './pages.ts'

export function NotFound() {
  return (
    <>
      <PageHeader title="Not found" />
      <Empty
        icon={MapPinOff}
        title="Page not found"
        actions={NAVIGATION.flatMap((group) => group.pages).map((page) => (
          <PageLink key={page.href} href={page.href} className={buttonClass('plain', true)}>
            {page.label}
          </PageLink>
        ))}
      >
        URLs: a run is at <code className="font-mono text-xs">/runs/name</code>, a batch at{' '}
        <code className="font-mono text-xs">/batches/b12</code>, a sample at{' '}
        <code className="font-mono text-xs">/samples?sample=b12-3</code>, a server at{' '}
        <code className="font-mono text-xs">/servers/rm-1</code>.
      </Empty>
    </>
  )
}
