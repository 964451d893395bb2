'use client'

import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import type { SavedViewDto } from '../../server/contract/saved-views.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPC } from '../api/trpc.ts'
import {
  type SampleView,
  sampleView,
  stateOf,
  type UnreadParam,
  unreadOfSaved,
} from './sample-filters.ts'

/**
 * The saved view in the URL. `?view=7` alone applies the view as it is saved now; further parameters override it.
 * `gone` means that the view was deleted. `unread` lists the parameters that this version cannot read.
 */
export function useSavedView(
  view: SampleView,
  setView: (change: Partial<SampleView>) => void,
): { saved: SavedViewDto | undefined; gone: boolean; unread: readonly UnreadParam[] } {
  const trpc = useTRPC()
  const query = useQuery({
    ...trpc.views.get.queryOptions({ id: view.view ?? 1 }),
    enabled: view.view !== null,
    retry: (count, error) => describeFailure(error).retryable && count < 3,
  })
  const saved = view.view === null ? undefined : query.data
  const isBare = view.view !== null && stateOf(view).size === 0 && view.unread.length === 0
  const state = saved?.state
  const opened = useRef<number | null>(null)
  // The view is applied once, so that its filters can be cleared afterwards.
  useEffect(() => {
    if (opened.current === view.view || (isBare && state === undefined)) return
    opened.current = view.view
    if (!isBare || state === undefined) return
    const { filter, sort, columns } = sampleView.parse(new URLSearchParams(state))
    setView({ filter, sort, columns })
  }, [view.view, isBare, state, setView])
  return {
    saved,
    gone:
      view.view !== null &&
      query.error !== null &&
      describeFailure(query.error).reason === 'view_not_found',
    unread: state === undefined ? [] : unreadOfSaved(state),
  }
}
