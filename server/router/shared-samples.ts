import type { SampleFailureReason } from '../contract/sample-reason.ts'
import type { PoolServer } from './pool-server.ts'
import type { RoutedSample } from './routed-sample.ts'
import { ScoreSample } from './score-sample.ts'

/**
 * Combines identical requests in flight: the first one is sent, and the others follow it and receive its score. A
 * trained policy often samples the same short response several times. Only requests to discriminative models are
 * combined, because their score is a function of the text.
 */
export class SharedSamples {
  /**
   * Samples that other samples may follow, by group, because identical samples have the same prompt. Responses are
   * compared by length first. A map by response would hash every text, which took 3 % of a worker's time.
   */
  readonly #leaders = new Map<string, ScoreSample[]>()
  readonly #admit: (sample: RoutedSample) => void

  constructor(admit: (sample: RoutedSample) => void) {
    this.#admit = admit
  }

  /** Makes the sample follow an identical one. Returns false if the sample must be sent itself. */
  follow(sample: RoutedSample): boolean {
    if (!(sample instanceof ScoreSample) || sample.group === undefined || !sample.isHedgeable)
      return false
    const leaders = this.#leaders.get(sample.group)
    if (leaders === undefined) {
      this.#leaders.set(sample.group, [sample])
      return false
    }
    const leader = leaders.find((other) => isSame(other, sample))
    if (leader === undefined) {
      leaders.push(sample)
      return false
    }
    // An interactive sample does not follow a queued sample, which may have a lower priority.
    if (sample.priorityClass === 'interactive' && leader.flight === null) return false
    leader.followers ??= []
    leader.followers.push(sample)
    sample.leader = leader
    return true
  }

  isFollowing(sample: RoutedSample): boolean {
    return sample instanceof ScoreSample && sample.leader !== null
  }

  scored(sample: RoutedSample, server: PoolServer, release: (follower: ScoreSample) => void): void {
    if (!(sample instanceof ScoreSample)) return
    this.#leave(sample)
    const { followers } = sample
    if (followers === null) return
    sample.followers = null
    for (const follower of followers) {
      follower.leader = null
      release(follower)
      follower.succeedAs(sample, server)
    }
  }

  /** Gives a sample's confirmed refusal to its followers, which have the same text. */
  refused(
    sample: RoutedSample,
    reason: SampleFailureReason,
    detail: string,
    release: (follower: ScoreSample) => void,
  ): void {
    if (!(sample instanceof ScoreSample)) return
    this.#leave(sample)
    const { followers } = sample
    if (followers === null) return
    sample.followers = null
    for (const follower of followers) {
      follower.leader = null
      release(follower)
      follower.refuseAs(sample, reason, detail)
    }
  }

  /** Handles a failed sample: its first follower is sent, and the other followers now follow that sample. */
  failed(sample: RoutedSample): void {
    if (!(sample instanceof ScoreSample)) return
    this.#leave(sample)
    const { followers } = sample
    if (followers === null) return
    sample.followers = null
    for (const follower of followers) {
      follower.leader = null
      if (!follower.done && !this.follow(follower)) this.#admit(follower)
    }
  }

  #leave(sample: ScoreSample): void {
    if (sample.leader !== null) {
      const { followers } = sample.leader
      const at = followers?.indexOf(sample) ?? -1
      if (at >= 0) followers?.splice(at, 1)
      sample.leader = null
      return
    }
    const group = sample.group
    const leaders = group === undefined ? undefined : this.#leaders.get(group)
    const at = leaders?.indexOf(sample) ?? -1
    if (leaders === undefined || at < 0) return
    if (leaders.length === 1) this.#leaders.delete(group as string)
    else leaders.splice(at, 1)
  }
}

function isSame(a: ScoreSample, b: ScoreSample): boolean {
  const { response } = a.request.input
  const other = b.request.input.response
  return (
    response.length === other.length &&
    response === other &&
    a.pool === b.pool &&
    a.request.needsTokenOffsets === b.request.needsTokenOffsets &&
    samePrompt(a, b)
  )
}

function samePrompt(a: ScoreSample, b: ScoreSample): boolean {
  const p = a.request.input
  const q = b.request.input
  if (typeof p.prompt === 'string' || typeof q.prompt === 'string') {
    return p.prompt === q.prompt && sameRest(a, b)
  }
  return JSON.stringify(p.prompt) === JSON.stringify(q.prompt) && sameRest(a, b)
}

/** Compares the inputs that only custom scorers receive. */
function sameRest(a: ScoreSample, b: ScoreSample): boolean {
  const p = a.request.input
  const q = b.request.input
  return (
    p.dataSource === q.dataSource &&
    JSON.stringify([p.groundTruth, p.extraInfo]) === JSON.stringify([q.groundTruth, q.extraInfo])
  )
}
