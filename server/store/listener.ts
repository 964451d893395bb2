import type pg from 'pg'
import type { Logger } from '../log.ts'
import { CHANNEL, handleNotification, type NotificationHandlers } from './channels.ts'
import { connectSession } from './session.ts'

const RETRY_MS = 200

/**
 * One connection that listens for notifications. Callers also poll, because notifications can be lost. `onReconnect` is
 * called after each successful connect, including the first.
 */
export class Listener {
  readonly #url: string
  readonly #log: Logger
  readonly #handlers: NotificationHandlers
  readonly #onReconnect: () => void
  #client: pg.Client | null = null
  #closed = false
  #retry: NodeJS.Timeout | undefined

  constructor(url: string, log: Logger, handlers: NotificationHandlers, onReconnect: () => void) {
    this.#url = url
    this.#log = log
    this.#handlers = handlers
    this.#onReconnect = onReconnect
  }

  async start(): Promise<void> {
    try {
      const client = await connectSession(this.#url, {
        name: 'rewardops listener',
        keepAlive: true,
        connectTimeoutMs: 5_000,
      })
      if (this.#closed) {
        await client.end().catch(() => {})
        return
      }
      this.#client = client
      let listening = false
      const again = (error?: Error) => {
        if (this.#client !== client) return
        this.#client = null
        client.end().catch(() => {})
        // Warns once per loss, not at each of the five attempts per second to reconnect.
        if (listening) this.#log.warn({ err: error?.message }, 'listening connection lost')
        this.#startLater()
      }
      client.on('error', again)
      client.on('end', () => again())
      client.on('notification', (n) => handleNotification(n.payload ?? '', this.#handlers))
      try {
        await client.query(`listen ${CHANNEL}`)
        listening = true
        this.#onReconnect()
      } catch (error) {
        again(error as Error)
      }
    } catch {
      this.#startLater()
    }
  }

  #startLater(): void {
    if (!this.#closed) this.#retry = setTimeout(() => void this.start(), RETRY_MS)
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    const client = this.#client
    this.#client = null
    await client?.end().catch(() => {})
  }
}
