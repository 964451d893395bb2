import type { FunctionCall } from './function-call.ts'

/**
 * Up to this many suspects run one by one. More suspects are divided into {@link GROUPS} groups, and a group that fails
 * again is divided further.
 */
const ONE_BY_ONE = 64
const GROUPS = 16

/** Calls that may have ended their process, in groups that run without other calls. */
export class Suspects {
  readonly #groups: FunctionCall[][] = []

  get groups(): number {
    return this.#groups.length
  }

  get size(): number {
    return this.#groups.reduce((n, group) => n + group.length, 0)
  }

  /**
   * Adds the calls of a process that ended. All calls become suspects if no call was seen running, or if the call seen
   * running was in an earlier incident. Otherwise the call seen running runs alone first, and another call becomes a
   * suspect only if that other call was in an earlier incident.
   * @returns the calls that may run together with other calls
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

  next(): FunctionCall[] | undefined {
    for (;;) {
      const group = this.#groups.shift()
      const calls = group?.filter((call) => !call.settled)
      if (calls === undefined || calls.length > 0) return calls
    }
  }

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
