'use client'

import { PageLink } from '../shell/page-link.tsx'
import type { UrlCodec } from '../url/use-url.ts'

/** The worker that an address names, to be marked among the others. */
export const workersView: UrlCodec<{ worker: string | null }> = {
  parse: (params) => ({ worker: params.get('worker') }),
  write({ worker }) {
    const params = new URLSearchParams()
    if (worker !== null) params.set('worker', worker)
    return params
  },
}

/** A worker's id, leading to it among the workers. */
export function WorkerName({ id }: { id: string }) {
  return (
    <PageLink
      href={`/workers?${workersView.write({ worker: id })}`}
      className="font-mono text-xs hover:underline"
    >
      {id}
    </PageLink>
  )
}
