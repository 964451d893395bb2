'use client'

import { type QueryClient, useQueryClient } from '@tanstack/react-query'
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
import { describeFailure } from '../api/failure.ts'
import { useTRPCClient } from '../api/trpc.ts'
import { broadcastPort, browserElection, liveStream } from './browser-ports.ts'
import { LiveChannel } from './live-channel.ts'
import { initialLive, type LiveState, liveReducer } from './live-state.ts'
import { concerns, EVERYTHING, PacedReadings } from './topics.ts'

interface LiveContext {
  state: LiveState
  setFrozen(frozen: boolean): void
  /** When data last arrived, epoch milliseconds. */
  dataAt(): number | null
  /** Whether something the page shows could not be read again. */
  failing(): boolean
}

const Context = createContext<LiveContext | null>(null)

/** The live stream as the pages see it. */
export function useLive(): LiveContext {
  const live = useContext(Context)
  if (live === null) throw new Error('useLive outside of LiveProvider')
  return live
}

/** While cut, pages still ask this often: a proxy that swallows streams must not make them blind. */
const POLL_WHILE_CUT_MS = 5_000

/** Holds this tab's part of the one stream a browser has, and reads again what changed. */
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
          // A stream also ends with the key it was opened by: then nothing else is asked on a page at rest.
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

function topicsOf(meta: Record<string, unknown> | undefined): string[] {
  return Array.isArray(meta?.topics) ? (meta.topics as string[]) : []
}

function newestData(queryClient: QueryClient): number | null {
  let newest = 0
  for (const query of queryClient.getQueryCache().findAll({ type: 'active' })) {
    if (topicsOf(query.meta).length > 0) newest = Math.max(newest, query.state.dataUpdatedAt)
  }
  return newest === 0 ? null : newest
}

/** A question may be refused for what it asks; only what the service could not answer makes the page old. */
function readsFail(queryClient: QueryClient): boolean {
  return queryClient
    .getQueryCache()
    .findAll({ type: 'active' })
    .some(
      ({ meta, state }) =>
        topicsOf(meta).length > 0 &&
        state.fetchFailureCount > 0 &&
        describeFailure(state.error ?? state.fetchFailureReason).retryable,
    )
}

/** Reads again what changed, coalesced: see topics.ts for the pace. */
function createRefresher(queryClient: QueryClient) {
  let waiting = new Set<string>()
  const readings = new PacedReadings()
  let timer: ReturnType<typeof setInterval> | undefined
  const look = (mayRead: () => boolean) => {
    if (!mayRead()) return
    const shown = queryClient
      .getQueryCache()
      .findAll({ type: 'active' })
      .filter((query) => topicsOf(query.meta).length > 0)
      .map((query) => ({
        key: query.queryHash,
        queryKey: query.queryKey,
        topics: topicsOf(query.meta),
        busy: query.state.fetchStatus === 'fetching',
      }))
    if (waiting.size > 0) {
      const changed = waiting
      // What no page shows now is only marked, and read when a page shows it again.
      queryClient.invalidateQueries({
        predicate: (query) => !query.isActive() && concerns(topicsOf(query.meta), changed),
        refetchType: 'none',
      })
    }
    const now = Date.now()
    for (const { key, queryKey } of readings.take(waiting, shown, now)) {
      // Of one moment, so they still travel in one request.
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

/** The time, once a second, from one timer for the whole page. 0 before the page is in the browser. */
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
