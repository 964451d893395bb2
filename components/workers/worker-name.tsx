'use client'

import { PageLink } from '../shell/page-link.tsx'
import type { UrlCodec } from '../url/use-url.ts'

/** What of the Workers page can be linked to. */
export interface WorkersUrl {
  /** A worker to be marked among the others. */
  worker: string | null
  /** Part of an id or a host by which the list is narrowed. */
  named: string
}

export const workersView: UrlCodec<WorkersUrl> = {
  parse: (params) => ({ worker: params.get('worker'), named: params.get('named') ?? '' }),
  write({ worker, named }) {
    const params = new URLSearchParams()
    if (worker !== null) params.set('worker', worker)
    if (named !== '') params.set('named', named)
    return params
  },
}

/** A worker's id, leading to it among the workers. */
export function WorkerName({ id }: { id: string }) {
  return (
    <PageLink
      href={`/workers?${workersView.write({ worker: id, named: '' })}`}
      className="font-mono text-xs hover:underline"
    >
      {id}
    </PageLink>
  )
}
