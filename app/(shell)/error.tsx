'use client'

import { Bug } from 'lucide-react'
import { PageHeader } from '../../components/shell/page-header.tsx'
import { Button } from '../../components/ui/button.tsx'
import { Empty } from '../../components/ui/empty.tsx'

export default function PageError({ error, reset }: { error: Error; reset: () => void }) {
  return (
    <>
      <PageHeader title="Page error" />
      <Empty
        icon={Bug}
        title="Page failed to render"
        actions={
          <>
            <Button variant="primary" onClick={reset}>
              Try again
            </Button>
            <Button onClick={() => location.reload()}>Reload</Button>
          </>
        }
      >
        The service is not affected, and batches continue. Error message:
        <code className="mt-2 block font-mono text-xs break-words">{error.message}</code>
      </Empty>
    </>
  )
}
