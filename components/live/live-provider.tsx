'use client'

import { type Query, type QueryClient, type QueryMeta, useQueryClient } from '@tanstack/react-query'
import {
  createContext,
  type ReactNode,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useReducer,
  useRef,
  useSyncExternalStore,
} from 'react'
import type { Topic } from '../../server/contract/pages.ts'
import { describeFailure } from '../api/failure.ts'
import { useTRPCClient } from '../api/trpc.ts'
import { broadcastPort, browserElection, liveStream } from './browser-ports.ts'
import { LiveChannel } from './live-channel.ts'
import { initialLive, type LiveState, liveReducer } from './live-state.ts'
import { concerns, EVERYTHING, PacedReadings } from './topics.ts'

interface LiveContext {
  state: LiveState
  setFrozen(frozen: boolean): void
  /** The time at which data last arrived, epoch ms. */
  dataAt(): number | null
  failing(): boolean
}

const Context = createContext<LiveContext | null>(null)

export function useLive(): LiveContext {
  const live = useContext(Context)
  if (live === null) throw new Error('useLive outside of LiveProvider')
  return live
}

/** Polling interval while the stream is down or refetches fail, ms. Some proxies block streams. */
const POLL_WHILE_CUT_MS = 5_000

export function LiveProvider({ children, enabled }: { children: ReactNode; enabled: boolean }) {
  const [state, dispatch] = useReducer(liveReducer, initialLive)
  const queryClient = useQueryClient()
  const client = useTRPCClient()
  const frozen = useRef(false)
  const refresher = useMemo(() => createRefresher(queryClient), [queryClient])

  useEffect(() => {
    if (!enabled) return
    let isOpen = false
    let polledAt = 0
    const channel = new LiveChannel({
      port: broadcastPort(),
      election: browserElection(),
      stream: liveStream(client),
      now: Date.now(),
      listener: {
        topics(topics) {
          refresher.changed(topics)
          if (frozen.current) dispatch({ type: 'changes' })
        },
        link(open) {
          // The stream also ends when the API key is revoked. An idle page sends no other request that would show this,
          // so the session is read again.
          if (isOpen && !open) {
            void queryClient.invalidateQueries({ queryKey: [['session', 'get']] })
          }
          isOpen = open
          dispatch({ type: 'link', open, at: Date.now() })
        },
      },
    })
    const timer = setInterval(() => {
      const now = Date.now()
      channel.tick(now, document.visibilityState === 'visible')
      dispatch({ type: 'tick', at: now })
      const blind = !isOpen || readsFail(queryClient)
      if (blind && now - polledAt >= POLL_WHILE_CUT_MS) {
        if (polledAt > 0) refresher.changed([EVERYTHING])
        polledAt = now
      }
    }, 1_000)
    refresher.start(() => document.visibilityState === 'visible' && !frozen.current)
    return () => {
      clearInterval(timer)
      refresher.stop()
      channel.close()
    }
  }, [enabled, client, refresher, queryClient])

  const setFrozen = useCallback((on: boolean) => {
    frozen.current = on
    dispatch(on ? { type: 'freeze', at: Date.now() } : { type: 'resume' })
  }, [])

  const value = useMemo(
    () => ({
      state,
      setFrozen,
      dataAt: () => newestData(queryClient),
      failing: () => readsFail(queryClient),
    }),
    [state, setFrozen, queryClient],
  )
  return <Context.Provider value={value}>{children}</Context.Provider>
}

declare module '@tanstack/react-query' {
  interface Register {
    /**
     * A change of any of the `topics` refetches the query. `minGapMs` is set if the service caches the response for
     * longer than the default gap, because a refetch within that time would return the same data.
     */
    queryMeta: { topics?: readonly Topic[]; minGapMs?: number }
  }
}

function topicsOf({ meta }: { meta: QueryMeta | undefined }): readonly Topic[] {
  return meta?.topics ?? []
}

function newestData(queryClient: QueryClient): number | null {
  let newest = 0
  for (const query of queryClient.getQueryCache().findAll({ type: 'active' })) {
    if (topicsOf(query).length > 0) newest = Math.max(newest, query.state.dataUpdatedAt)
  }
  return newest === 0 ? null : newest
}

/** Whether a live query failed because of the service. A refused request does not make a page stale. */
function readsFail(queryClient: QueryClient): boolean {
  return queryClient
    .getQueryCache()
    .findAll({ type: 'active' })
    .some(
      (query) =>
        topicsOf(query).length > 0 &&
        query.state.fetchFailureCount > 0 &&
        describeFailure(query.state.error ?? query.state.fetchFailureReason).retryable,
    )
}

/** Coalesces refetches of changed queries. Their pace is defined in topics.ts. */
function createRefresher(queryClient: QueryClient) {
  let waiting = new Set<string>()
  const readings = new PacedReadings()
  let timer: ReturnType<typeof setInterval> | undefined
  const look = (mayRead: () => boolean) => {
    if (!mayRead()) return
    const shown = queryClient
      .getQueryCache()
      .findAll({ type: 'active' })
      .filter((query) => topicsOf(query).length > 0)
      .map((query) => ({
        key: query.queryHash,
        queryKey: query.queryKey,
        topics: topicsOf(query),
        busy: query.state.fetchStatus === 'fetching',
        ...(query.meta?.minGapMs !== undefined && { minGapMs: query.meta.minGapMs }),
      }))
    const changed = waiting
    const now = Date.now()
    const { ready, left } = readings.take(changed, shown, now)
    if (changed.size + left.size > 0) {
      // Queries that have left the page are only invalidated. They are refetched when they are shown again.
      const hasLeft = (query: Query) => !query.isActive() && left.has(query.queryHash)
      // The current read is aborted, because its data are older than the change but would count as fresh.
      void queryClient.cancelQueries({ predicate: hasLeft })
      queryClient.invalidateQueries({
        predicate: (query) =>
          hasLeft(query) || (!query.isActive() && concerns(topicsOf(query), changed)),
        refetchType: 'none',
      })
    }
    for (const { key, queryKey } of ready) {
      // All refetches start in one tick, so they share one request.
      void queryClient
        .refetchQueries({ type: 'active', queryKey, exact: true })
        .then(() => readings.ended(key, now, Date.now()))
    }
    waiting = new Set()
  }
  return {
    changed(topics: readonly string[]) {
      for (const topic of topics) waiting.add(topic)
    },
    start(mayRead: () => boolean) {
      clearInterval(timer)
      timer = setInterval(() => look(mayRead), 85)
    },
    stop() {
      clearInterval(timer)
    },
  }
}

const secondListeners = new Set<() => void>()
let secondTimer: ReturnType<typeof setInterval> | undefined
let second = 0

function onSecond(listener: () => void): () => void {
  secondListeners.add(listener)
  second = Date.now()
  secondTimer ??= setInterval(() => {
    second = Date.now()
    for (const each of secondListeners) each()
  }, 1_000)
  return () => {
    secondListeners.delete(listener)
    if (secondListeners.size === 0) {
      clearInterval(secondTimer)
      secondTimer = undefined
    }
  }
}

/** The current time, epoch ms, updated once a second by one timer per page. 0 before hydration. */
export function useNow(): number {
  return useSyncExternalStore(
    onSecond,
    () => {
      if (second === 0) second = Date.now()
      return second
    },
    () => 0,
  )
}
