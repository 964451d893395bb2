'use client'

import { PageLink } from '../shell/page-link.tsx'
import type { UrlCodec } from '../url/use-url.ts'
import { DEFAULT_RANGE, type HistoryRange, rangeOfUrl, writeRange } from './history-range.ts'

interface WorkersUrl {
  worker: string | null
  named: string
  range: HistoryRange
}

export const workersView: UrlCodec<WorkersUrl> = {
  parse: (params) => ({
    worker: params.get('worker'),
    named: params.get('named') ?? '',
    range: rangeOfUrl(params),
  }),
  write({ worker, named, range }) {
    const params = new URLSearchParams()
    if (worker !== null) params.set('worker', worker)
    if (named !== '') params.set('named', named)
    writeRange(params, range)
    return params
  },
}

export function WorkerName({ id }: { id: string }) {
  return (
    <PageLink
      href={`/workers?${workersView.write({ worker: id, named: '', range: DEFAULT_RANGE })}`}
      className="font-mono text-xs hover:underline"
    >
      {id}
    </PageLink>
  )
}
