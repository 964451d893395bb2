'use client'

import { usePathname, useSearchParams } from 'next/navigation'
import { useCallback, useMemo } from 'react'

/** Reads a page's state from the URL and writes it back. */
export interface UrlCodec<T> {
  parse(params: URLSearchParams): T
  /** Only what differs from the default, so that a bare address is the default view. */
  write(state: T): URLSearchParams
}

/**
 * The URL is the state: what is not in it is not shared. `push` makes a step for the back button, `replace`
 * does not. Neither asks the server for anything.
 */
export function useUrl<T>(
  codec: UrlCodec<T>,
): [state: T, set: (change: Partial<T>, how?: 'push' | 'replace') => void] {
  const params = useSearchParams()
  const pathname = usePathname()
  const state = useMemo(() => codec.parse(new URLSearchParams(params)), [codec, params])
  const set = useCallback(
    (change: Partial<T>, how: 'push' | 'replace' = 'replace') => {
      // From the address bar, not from the render: two changes in one tick must not undo each other.
      const now = codec.parse(new URLSearchParams(location.search))
      const query = codec.write({ ...now, ...change }).toString()
      const url = query === '' ? pathname : `${pathname}?${query}`
      if (how === 'push') history.pushState(null, '', url)
      else history.replaceState(null, '', url)
    },
    [codec, pathname],
  )
  return [state, set]
}
