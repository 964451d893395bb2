import { rootOf } from '../../router/answer-classes.ts'
import type { RouterSlot } from '../../router/router-types.ts'
import { Transport } from '../../router/transport.ts'
import type { UpstreamCall } from './upstream-call.ts'

/** Time without a call after which a server's connections are closed and the server is forgotten, in ms. */
const FORGET_AFTER_MS = 60_000

interface Upstream {
  transport: Transport
  /** The server's base path without a trailing /v1. */
  root: string
  active: number
  usedAtMs: number
}

/**
 * Connections to the servers by URL. Each carries one call at a time and stays open for 4 s after the call. Link-local
 * addresses are refused.
 */
export class Upstreams {
  readonly #byUrl = new Map<string, Upstream>()

  /** Sends a call to the server of a slot. The caller must call {@link ended} when the call has ended. */
  post(
    call: UpstreamCall,
    { url, hasShare }: Pick<RouterSlot, 'url' | 'hasShare'>,
    path: string,
    headers: string[],
    body: Buffer,
  ): void {
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
    upstream.transport.post(call, upstream.root + path, headers, body, hasShare)
  }

  ended(url: string, nowMs: number): void {
    const upstream = this.#byUrl.get(url)
    if (upstream === undefined) return
    upstream.active--
    upstream.usedAtMs = nowMs
  }

  sweep(nowMs: number): void {
    for (const [url, upstream] of this.#byUrl) {
      if (upstream.active > 0 || nowMs - upstream.usedAtMs < FORGET_AFTER_MS) continue
      this.#byUrl.delete(url)
      upstream.transport.retire()
    }
  }

  counts(): { active: number; connections: number } {
    let active = 0
    let connections = 0
    for (const upstream of this.#byUrl.values()) {
      active += upstream.active
      connections += upstream.transport.connections
    }
    return { active, connections }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#byUrl.values()].map((upstream) => upstream.transport.close()))
  }
}
