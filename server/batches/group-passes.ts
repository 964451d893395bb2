import { type GroupPasses, PASS_SCORE } from '../contract/prompts.ts'
import { bestOfK, reportedK } from '../rewards/pass-at-k.ts'
import type { MemberColumns } from '../store/sql/group-statistics.ts'

/** Returns the scores of each group in ascending order, without failed and substituted samples. */
export function scoresOfGroups(members: MemberColumns): Map<number, number[]> {
  const scores = new Map<number, number[]>()
  for (const [at, no] of members.group_no.entries()) {
    const score = members.score[at] as number | null
    const list = scores.get(no) ?? []
    if (list.length === 0) scores.set(no, list)
    if (members.status[at] === 2 && members.substituted[at] === false && score !== null) {
      list.push(score)
    }
  }
  for (const list of scores.values()) list.sort((a, b) => a - b)
  return scores
}

export function passesOf(scores: readonly number[]): number {
  return scores.reduce((n, score) => n + (score >= PASS_SCORE ? 1 : 0), 0)
}

export class GroupPassesSum {
  readonly #hasPasses: boolean
  readonly #passes = new Map<string, [number, number, number]>()
  readonly #bestOf = new Map<number, { groups: number; sum: number }>()
  withoutPrompt = 0

  /** @param hasPasses false if only reward models decide the scores */
  constructor(hasPasses: boolean) {
    this.#hasPasses = hasPasses
  }

  add(ascending: readonly number[]): void {
    const n = ascending.length
    if (n === 0) return
    if (this.#hasPasses) {
      const passed = passesOf(ascending)
      const entry = this.#passes.get(`${n}/${passed}`)
      if (entry) entry[2]++
      else this.#passes.set(`${n}/${passed}`, [n, passed, 1])
    }
    for (const k of reportedK(n)) {
      const best = bestOfK(ascending, k)
      const entry = this.#bestOf.get(k)
      if (entry) {
        entry.groups++
        entry.sum += best
      } else this.#bestOf.set(k, { groups: 1, sum: best })
    }
  }

  get(): GroupPasses {
    return {
      passes: this.#hasPasses ? [...this.#passes.values()] : null,
      bestOf: [...this.#bestOf].map(([k, { groups, sum }]) => [k, groups, sum / groups]),
      withoutPrompt: this.withoutPrompt,
    }
  }
}
