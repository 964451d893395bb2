'use client'

import { HISTORY_RANGES_S } from '../../server/contract/fleet-history.ts'
import { PageLink } from '../shell/page-link.tsx'
import type { UrlCodec } from '../url/use-url.ts'

/** The range of a URL without one, in seconds. */
export const [DEFAULT_RANGE_S] = HISTORY_RANGES_S

/** The URL state of the Workers page. */
interface WorkersUrl {
  /** A highlighted worker. */
  worker: string | null
  /** The filter: part of an ID or host. */
  named: string
  /** Range of the charts, seconds. */
  range: number
}

export const workersView: UrlCodec<WorkersUrl> = {
  parse: (params) => ({
    worker: params.get('worker'),
    named: params.get('named') ?? '',
    range: rangeOfUrl(params.get('last')),
  }),
  write({ worker, named, range }) {
    const params = new URLSearchParams()
    if (worker !== null) params.set('worker', worker)
    if (named !== '') params.set('named', named)
    if (range !== DEFAULT_RANGE_S) params.set('last', String(range))
    return params
  },
}

/** The range of a URL parameter, in seconds. */
export function rangeOfUrl(text: string | null): number {
  return HISTORY_RANGES_S.find((seconds) => String(seconds) === text) ?? DEFAULT_RANGE_S
}

/** A worker ID, linked to the Workers page. */
export function WorkerName({ id }: { id: string }) {
  return (
    <PageLink
      href={`/workers?${workersView.write({ worker: id, named: '', range: DEFAULT_RANGE_S })}`}
      className="font-mono text-xs hover:underline"
    >
      {id}
    </PageLink>
  )
}
