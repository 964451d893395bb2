import { SwapList } from './swap-list.ts'

/**
 * The samples that an AbortSignal ends. A batch's signal serves thousands of samples: with a listener each, every add and
 * remove would walk over all of them, so there is one listener per signal and a list behind it.
 */
export class AbortRegistry<T extends { abortIndex: number }> {
  readonly #groups = new WeakMap<AbortSignal, SwapList<T>>()
  readonly #onAbort: (member: T) => void

  constructor(onAbort: (member: T) => void) {
    this.#onAbort = onAbort
  }

  /** Registers a member; `onAbort` is called for it when the signal is aborted. */
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
      // The listener stays for the signal's life: one small closure, collected with the signal.
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

  /** Removes a member that ended in another way. */
  delete(signal: AbortSignal, member: T): void {
    this.#groups.get(signal)?.delete(member)
  }
}
