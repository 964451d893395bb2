import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { PoolServer } from './pool-server.ts'
import type { Row } from './routed-sample.ts'
import { ScoreRow } from './score-sample.ts'

/**
 * Identical requests in flight at one time: the first is sent, the others wait for its score. Policies sample the same
 * short answer to one prompt again and again. For discriminative models only, whose score is a function of the text; one
 * that fails, is cancelled or runs out of its time leaves its followers to try for themselves, unless what it was refused is
 * known to be the text's own fault.
 */
export class SharedRows {
  /**
   * Rows in flight or waiting that others may follow, by their group: it is a prompt's samples that are alike. Looked for by
   * length first: a map by response had to hash every text, 3 % of a worker's time.
   */
  readonly #leaders = new Map<string, ScoreRow[]>()
  readonly #admit: (row: Row) => void

  constructor(admit: (row: Row) => void) {
    this.#admit = admit
  }

  /** True: the row waits for an identical one. */
  follow(row: Row): boolean {
    if (!(row instanceof ScoreRow) || row.group === undefined || !row.isHedgeable) return false
    const leaders = this.#leaders.get(row.group)
    if (leaders === undefined) {
      this.#leaders.set(row.group, [row])
      return false
    }
    const leader = leaders.find((other) => isSame(other, row))
    if (leader === undefined) {
      leaders.push(row)
      return false
    }
    // Somebody waits for it: not behind a step's queue.
    if (row.priorityClass === 'interactive' && leader.flight === null) return false
    leader.followers ??= []
    leader.followers.push(row)
    row.leader = leader
    return true
  }

  isFollowing(row: Row): boolean {
    return row instanceof ScoreRow && row.leader !== null
  }

  /** A row has its score: so have those that follow it. `release` takes each out of the lists first. */
  scored(row: Row, server: PoolServer, release: (follower: ScoreRow) => void): void {
    if (!(row instanceof ScoreRow)) return
    this.#leave(row)
    const { followers } = row
    if (followers === null) return
    row.followers = null
    for (const follower of followers) {
      follower.leader = null
      release(follower)
      follower.succeedAs(row, server)
    }
  }

  /** A row's refusal is confirmed: of the same text it is the same for those that follow it. */
  refused(
    row: Row,
    reason: SampleFailureReason,
    detail: string,
    release: (follower: ScoreRow) => void,
  ): void {
    if (!(row instanceof ScoreRow)) return
    this.#leave(row)
    const { followers } = row
    if (followers === null) return
    row.followers = null
    for (const follower of followers) {
      follower.leader = null
      release(follower)
      follower.refuseAs(row, reason, detail)
    }
  }

  /** A row ended without a score: the next in line is sent, and the others follow that one. */
  failed(row: Row): void {
    if (!(row instanceof ScoreRow)) return
    this.#leave(row)
    const { followers } = row
    if (followers === null) return
    row.followers = null
    for (const follower of followers) {
      follower.leader = null
      if (!follower.done && !this.follow(follower)) this.#admit(follower)
    }
  }

  #leave(row: ScoreRow): void {
    if (row.leader !== null) {
      const { followers } = row.leader
      const at = followers?.indexOf(row) ?? -1
      if (at >= 0) followers?.splice(at, 1)
      row.leader = null
      return
    }
    const group = row.group
    const leaders = group === undefined ? undefined : this.#leaders.get(group)
    const at = leaders?.indexOf(row) ?? -1
    if (leaders === undefined || at < 0) return
    if (leaders.length === 1) this.#leaders.delete(group as string)
    else leaders.splice(at, 1)
  }
}

function isSame(a: ScoreRow, b: ScoreRow): boolean {
  const { response } = a.request.input
  const other = b.request.input.response
  return (
    response.length === other.length && response === other && a.pool === b.pool && samePrompt(a, b)
  )
}

function samePrompt(a: ScoreRow, b: ScoreRow): boolean {
  const p = a.request.input
  const q = b.request.input
  if (typeof p.prompt === 'string' || typeof q.prompt === 'string') {
    return p.prompt === q.prompt && sameRest(a, b)
  }
  return JSON.stringify(p.prompt) === JSON.stringify(q.prompt) && sameRest(a, b)
}

/** What a scorer of one's own is sent beside the text. */
function sameRest(a: ScoreRow, b: ScoreRow): boolean {
  const p = a.request.input
  const q = b.request.input
  return (
    p.dataSource === q.dataSource &&
    JSON.stringify([p.groundTruth, p.extraInfo]) === JSON.stringify([q.groundTruth, q.extraInfo])
  )
}
