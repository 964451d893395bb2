import { SwapList } from './swap-list.ts'

/**
 * Calls its members back when their AbortSignal is aborted. One signal may serve thousands of samples. Adding or
 * removing one of thousands of listeners scans all of them, so each signal has a single listener and a list of members.
 */
export class AbortRegistry<T extends { abortIndex: number }> {
  readonly #groups = new WeakMap<AbortSignal, SwapList<T>>()
  readonly #onAbort: (member: T) => void

  constructor(onAbort: (member: T) => void) {
    this.#onAbort = onAbort
  }

  add(signal: AbortSignal, member: T): void {
    let group = this.#groups.get(signal)
    if (group === undefined) {
      const members = new SwapList<T>(
        (member) => member.abortIndex,
        (member, index) => {
          member.abortIndex = index
        },
      )
      group = members
      this.#groups.set(signal, members)
      // The listener is never removed. It is garbage-collected with its signal.
      signal.addEventListener(
        'abort',
        () => {
          for (const each of members.all()) this.#onAbort(each)
        },
        { once: true },
      )
    }
    group.add(member)
  }

  delete(signal: AbortSignal, member: T): void {
    this.#groups.get(signal)?.delete(member)
  }
}
