'use client'

import { usePathname, useSearchParams } from 'next/navigation'
import { useCallback, useMemo, useState } from 'react'
import { BASE_PATH } from './base-path.ts'

export interface UrlCodec<T> {
  parse(params: URLSearchParams): T
  /** Omits defaults, so that a bare URL is the default view. */
  write(state: T): URLSearchParams
}

/**
 * Keeps view state in the query of the URL. `push` adds a history entry, `replace` does not; neither requests the page
 * from the server. Changes render immediately. Next alone would apply them in a transition, and a clicked checkbox
 * would briefly show its old state.
 */
export function useUrl<T>(
  codec: UrlCodec<T>,
): [state: T, set: (change: Partial<T>, how?: 'push' | 'replace') => void] {
  const params = useSearchParams()
  const pathname = usePathname()
  /** The query that was written last. It applies until `useSearchParams` returns it. */
  const [written, setWritten] = useState<{ over: unknown; query: string } | null>(null)
  const query = written?.over === params ? written.query : params.toString()
  const state = useMemo(() => codec.parse(new URLSearchParams(query)), [codec, query])
  const set = useCallback(
    (change: Partial<T>, how: 'push' | 'replace' = 'replace') => {
      // The state is read from the address bar, not from the last render, so that two changes in one tick both apply.
      const now = codec.parse(new URLSearchParams(location.search))
      const query = codec.write({ ...now, ...change }).toString()
      const url = `${BASE_PATH}${pathname}${query === '' ? '' : `?${query}`}`
      if (how === 'push') history.pushState(null, '', url)
      else history.replaceState(null, '', url)
      setWritten({ over: params, query })
    },
    [codec, pathname, params],
  )
  return [state, set]
}
