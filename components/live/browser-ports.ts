import type { TRPCClient } from '@trpc/client'
import type { AppRouter } from '../../server/api/root.ts'
import type { Election, LiveMessage, MessagePort, Stream } from './live-channel.ts'
import { EVERYTHING } from './topics.ts'

const NAME = 'rewardops-live'

export function broadcastPort(): MessagePort {
  const channel = new BroadcastChannel(NAME)
  return {
    post: (message) => channel.postMessage(message),
    onMessage: (listener) => {
      channel.onmessage = (event: MessageEvent<LiveMessage>) => listener(event.data)
    },
    close: () => channel.close(),
  }
}

/**
 * Leader election by a Web Lock, held until the tab closes. Web Locks need a secure context, so plain HTTP on a name
 * other than localhost falls back to a lease in localStorage.
 */
export function browserElection(): Election {
  return typeof navigator.locks === 'undefined' ? leaseElection() : lockElection()
}

function lockElection(): Election {
  let closed = false
  let release: (() => void) | null = null
  let inLine: AbortController | null = null
  const election: Election = {
    campaign(lead, { steal }) {
      if (closed) return
      // A tab has at most one pending lock request. With more, it could get the lock twice.
      inLine?.abort()
      const waiting = new AbortController()
      inLine = steal ? null : waiting
      const lost = new AbortController()
      navigator.locks
        .request(NAME, steal ? { steal } : { signal: waiting.signal }, () => {
          if (inLine === waiting) inLine = null
          if (closed) return
          lead(lost.signal)
          return new Promise<void>((resolve) => {
            release = resolve
          })
        })
        .catch(() => {
          if (waiting.signal.aborted || closed) return
          // Another tab took the lock, so this tab queues for it again.
          lost.abort()
          release = null
          election.campaign(lead, { steal: false })
        })
    },
    close() {
      closed = true
      inLine?.abort()
      release?.()
    },
  }
  return election
}

/**
 * Leader election by a lease of 5 s, renewed every second. If two tabs take it at the same time, the next check
 * resolves the conflict.
 */
function leaseElection(): Election {
  const me = Math.random().toString(36).slice(2)
  const leaseMs = 5_000
  let timer: ReturnType<typeof setInterval> | null = null
  let leadership: AbortController | null = null
  const read = (): { owner: string; until: number } | null => {
    try {
      return JSON.parse(localStorage.getItem(NAME) ?? 'null')
    } catch {
      return null
    }
  }
  const write = () =>
    localStorage.setItem(NAME, JSON.stringify({ owner: me, until: Date.now() + leaseMs }))
  return {
    campaign(lead, { steal }) {
      if (steal) write()
      timer ??= setInterval(() => {
        const lease = read()
        const mine = lease?.owner === me
        if (leadership !== null) {
          if (mine) write()
          else {
            leadership.abort()
            leadership = null
          }
        } else if (mine) {
          leadership = new AbortController()
          write()
          lead(leadership.signal)
        } else if (lease === null || lease.until < Date.now()) write()
      }, 1_000)
    },
    close() {
      if (timer !== null) clearInterval(timer)
      if (leadership !== null) localStorage.removeItem(NAME)
    },
  }
}

/**
 * The tRPC subscription. It is reopened here after an HTTP error or the end of the stream, because browsers do not
 * reopen it.
 */
export function liveStream(client: TRPCClient<AppRouter>): Stream {
  return {
    open(on) {
      let stopped = false
      let subscription: { unsubscribe(): void } | null = null
      let timer: ReturnType<typeof setTimeout> | undefined
      let resync: ReturnType<typeof setTimeout> | undefined
      let failures = 0
      let wasOpen = false
      const again = () => {
        subscription = null
        if (stopped) return
        clearTimeout(timer)
        timer = setTimeout(start, Math.min(500 * 2 ** failures++, 8_000))
      }
      const start = () => {
        subscription = client.live.events.subscribe(undefined, {
          onData: (event) => on.topics(event.topics),
          onConnectionStateChange: ({ state }) => {
            if (stopped || state === 'idle') return
            const isOpen = state === 'pending'
            if (isOpen) {
              failures = 0
              // Changes during a disconnection are unknown, so all queries are refetched: immediately after a
              // disconnection, and 3 s after a page opens, because its first data are still fresh.
              clearTimeout(resync)
              resync = setTimeout(() => on.topics([EVERYTHING]), wasOpen ? 0 : 3_000)
              wasOpen = true
            }
            on.link(isOpen)
          },
          onError: () => {
            on.link(false)
            again()
          },
          onComplete: again,
        })
      }
      start()
      return {
        stop() {
          stopped = true
          clearTimeout(timer)
          clearTimeout(resync)
          subscription?.unsubscribe()
        },
      }
    },
  }
}
