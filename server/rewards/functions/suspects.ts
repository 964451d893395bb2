import type { FunctionCall } from './function-call.ts'

/** Up to so many run one by one; more are divided into so many groups, and a group that does it again is divided further. */
const ONE_BY_ONE = 64
const GROUPS = 16

/** Calls of which one brought its process down, and nobody knows which: lists of those that run with nobody else. */
export class Suspects {
  readonly #groups: FunctionCall[][] = []

  /** Lists that wait to be run. */
  get groups(): number {
    return this.#groups.length
  }

  /** Calls in them. */
  get size(): number {
    return this.#groups.reduce((n, group) => n + group.length, 0)
  }

  /**
   * Takes up what was inside a process that ended. One that was seen at work runs alone first, and the others are not
   * under suspicion before it happens to them a second time.
   * @returns those that may be called again among others
   */
  add(inside: readonly FunctionCall[], seen: FunctionCall | null): FunctionCall[] {
    for (const call of inside) call.incidents++
    if (seen === null || seen.incidents > 1) {
      this.#groups.push(...groupsOf(inside))
      return []
    }
    this.#groups.push([seen])
    const others = inside.filter((call) => call !== seen)
    this.#groups.push(...groupsOf(others.filter((call) => call.incidents > 1)))
    return others.filter((call) => call.incidents === 1)
  }

  /** The next to run with nobody else; undefined: there are none. */
  next(): FunctionCall[] | undefined {
    for (;;) {
      const group = this.#groups.shift()
      const calls = group?.filter((call) => !call.settled)
      if (calls === undefined || calls.length > 0) return calls
    }
  }

  /** All of them, which are none any more. */
  takeAll(): FunctionCall[] {
    return this.#groups.splice(0).flat()
  }
}

function groupsOf(calls: readonly FunctionCall[]): FunctionCall[][] {
  const size = calls.length <= ONE_BY_ONE ? 1 : Math.ceil(calls.length / GROUPS)
  const groups: FunctionCall[][] = []
  for (let at = 0; at < calls.length; at += size) groups.push(calls.slice(at, at + size))
  return groups
}
