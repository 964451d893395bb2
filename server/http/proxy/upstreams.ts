import { rootOf } from '../../router/answer-classes.ts'
import { Transport } from '../../router/transport.ts'
import type { UpstreamCall } from './upstream-call.ts'

/** A server nobody called for this long has its connections closed and is forgotten, ms. */
const FORGET_AFTER_MS = 60_000

interface Upstream {
  transport: Transport
  /** Where the server's routes begin: its base path, less a /v1 at the end. */
  root: string
  active: number
  usedAtMs: number
}

/** Connections to the servers, by address: kept open 4 s, one call at a time each, link-local addresses refused. */
export class Upstreams {
  readonly #byUrl = new Map<string, Upstream>()

  /** Sends a call to a server's address (origin and base path); {@link ended} must follow. */
  post(call: UpstreamCall, url: string, path: string, headers: string[], body: Buffer): void {
    let upstream = this.#byUrl.get(url)
    if (upstream === undefined) {
      const { origin, pathname } = new URL(url)
      upstream = {
        transport: new Transport(origin, () => {}, -1),
        root: rootOf(pathname.replace(/\/+$/, '')),
        active: 0,
        usedAtMs: 0,
      }
      this.#byUrl.set(url, upstream)
    }
    upstream.active++
    upstream.transport.post(call, upstream.root + path, headers, body)
  }

  /** A call to an address came to its end, whichever. */
  ended(url: string, nowMs: number): void {
    const upstream = this.#byUrl.get(url)
    if (upstream === undefined) return
    upstream.active--
    upstream.usedAtMs = nowMs
  }

  /** Forgets the servers that nobody called for a while. */
  sweep(nowMs: number): void {
    for (const [url, upstream] of this.#byUrl) {
      if (upstream.active > 0 || nowMs - upstream.usedAtMs < FORGET_AFTER_MS) continue
      this.#byUrl.delete(url)
      upstream.transport.retire()
    }
  }

  /** Calls out, and connections open or opening. */
  counts(): { active: number; connections: number } {
    let active = 0
    let connections = 0
    for (const upstream of this.#byUrl.values()) {
      active += upstream.active
      connections += upstream.transport.connections
    }
    return { active, connections }
  }

  /** Closes every connection. */
  async close(): Promise<void> {
    await Promise.all([...this.#byUrl.values()].map((upstream) => upstream.transport.close()))
  }
}
