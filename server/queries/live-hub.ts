import type { LiveEvent, Topic } from '../contract/pages.ts'

const COALESCE_MS = 300

/** Collects changes and sends them to all subscribers, at most about three times a second. */
export class LiveHub {
  readonly #subscribers = new Set<(event: LiveEvent) => void>()
  readonly #topics = new Set<Topic>()
  #timer: NodeJS.Timeout | undefined
  #seq = 0
  #closed = false

  touch(...topics: Topic[]): void {
    if (this.#subscribers.size === 0 || this.#closed) return
    for (const topic of topics) this.#topics.add(topic)
    this.#timer ??= setTimeout(() => this.#tell(), COALESCE_MS)
  }

  get subscribers(): number {
    return this.#subscribers.size
  }

  /** Yields events until `signal` aborts or the hub closes. The first event reports that the stream is open. */
  async *subscribe(signal: AbortSignal | undefined): AsyncGenerator<LiveEvent> {
    const waiting: LiveEvent[] = [{ seq: this.#seq, at: new Date().toISOString(), topics: [] }]
    let wake = () => {}
    const onEvent = (event: LiveEvent) => {
      // A slow reader gets the union of several changes in one event.
      const last = waiting.at(-1)
      if (last && waiting.length > 1) last.topics = [...new Set([...last.topics, ...event.topics])]
      else waiting.push({ ...event })
      wake()
    }
    const onAbort = () => wake()
    this.#subscribers.add(onEvent)
    signal?.addEventListener('abort', onAbort)
    try {
      while (!signal?.aborted && !this.#closed) {
        const event = waiting.shift()
        if (event) yield event
        else {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    } finally {
      this.#subscribers.delete(onEvent)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  close(): void {
    this.#closed = true
    clearTimeout(this.#timer)
    for (const subscriber of this.#subscribers)
      subscriber({ seq: ++this.#seq, at: new Date().toISOString(), topics: [] })
  }

  #tell(): void {
    this.#timer = undefined
    const event = { seq: ++this.#seq, at: new Date().toISOString(), topics: [...this.#topics] }
    this.#topics.clear()
    for (const subscriber of this.#subscribers) subscriber(event)
  }
}
