import pg from 'pg'
import type { Logger } from '../log.ts'

/** The one channel; payloads are ids only: `b<batch>`, `q<pool>`, `s` (servers), `w` (workers), `a` (keys). */
const CHANNEL = 'rewardops'

/**
 * One connection that listens. A notification is a hint: whoever uses it polls once a second as well,
 * and hears `onReconnect` after every gap.
 */
export class Listener {
  readonly #url: string
  readonly #log: Logger
  readonly #onPayload: (payload: string) => void
  readonly #onReconnect: () => void
  #client: pg.Client | null = null
  #closed = false
  #retry: NodeJS.Timeout | undefined

  constructor(
    url: string,
    log: Logger,
    onPayload: (payload: string) => void,
    onReconnect: () => void,
  ) {
    this.#url = url
    this.#log = log
    this.#onPayload = onPayload
    this.#onReconnect = onReconnect
  }

  async start(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: 'rewardops listener',
      keepAlive: true,
      connectionTimeoutMillis: 5_000,
    })
    let listening = false
    const again = (error?: Error) => {
      if (this.#client !== client) return
      this.#client = null
      client.end().catch(() => {})
      if (this.#closed) return
      // Once a loss: it is tried five times a second, however long the database is away.
      if (listening) this.#log.warn({ err: error?.message }, 'listening connection lost')
      this.#retry = setTimeout(() => void this.start(), 200)
    }
    this.#client = client
    client.on('error', again)
    client.on('end', () => again())
    client.on('notification', (n) => this.#onPayload(n.payload ?? ''))
    try {
      await client.connect()
      await client.query(`listen ${CHANNEL}`)
      listening = true
      this.#onReconnect()
    } catch (error) {
      again(error as Error)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#retry)
    const client = this.#client
    this.#client = null
    await client?.end().catch(() => {})
  }
}
