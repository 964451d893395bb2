'use client'

import { Bug } from 'lucide-react'
import { PageHeader } from '../../components/shell/page-header.tsx'
import { Button } from '../../components/ui/button.tsx'
import { Empty } from '../../components/ui/empty.tsx'

export default function PageError({ error, reset }: { error: Error; reset: () => void }) {
  return (
    <>
      <PageHeader title="This page broke" />
      <Empty
        icon={Bug}
        title="The page could not be drawn"
        actions={
          <>
            <Button variant="primary" onClick={reset}>
              Draw it again
            </Button>
            <Button onClick={() => location.reload()}>Load it anew</Button>
          </>
        }
      >
        The service is not touched by this: batches go on. What the page said:
        <code className="mt-2 block font-mono text-xs break-words">{error.message}</code>
      </Empty>
    </>
  )
}
