/**
 * Reads shared state, one read at a time. Calls that arrive during a read share the next read, so every caller gets a
 * read that began after its call.
 */
export class SharedRead<T = void> {
  readonly #read: () => Promise<T>
  #current: Promise<T> | null = null
  #next: Promise<T> | null = null

  constructor(read: () => Promise<T>) {
    this.#read = read
  }

  /** @throws the error of the read */
  run(): Promise<T> {
    // Even an idle read starts asynchronously, so that calls made in one loop share it.
    this.#next ??= (this.#current ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        this.#next = null
        return this.#start()
      })
    return this.#next
  }

  async settled(): Promise<void> {
    await (this.#next ?? this.#current)?.catch(() => {})
  }

  #start(): Promise<T> {
    this.#current = this.#read().finally(() => {
      this.#current = null
    })
    return this.#current
  }
}
