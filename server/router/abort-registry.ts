import { SwapList } from './swap-list.ts'

/**
 * Which samples an AbortSignal ends. A batch's signal serves thousands of samples: a listener each would cost a walk over all
 * of them at every add and remove, so there is one listener a signal and a list behind it.
 */
export class AbortRegistry<T extends { abortIndex: number }> {
  readonly #groups = new WeakMap<AbortSignal, SwapList<T>>()
  readonly #onAbort: (member: T) => void

  constructor(onAbort: (member: T) => void) {
    this.#onAbort = onAbort
  }

  /** Ends `member` when the signal is aborted. */
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
      // Stays for the signal's life: one small closure, gone with the signal.
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

  /** The member ended in another way. */
  delete(signal: AbortSignal, member: T): void {
    this.#groups.get(signal)?.delete(member)
  }
}
