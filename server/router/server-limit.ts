import { AdaptiveLimit } from './concurrency-limit.ts'
import type { RouterServer } from './router-types.ts'

/** Bounds of a limit that is found by measuring, over all processes. */
const MEASURED_FROM = { discriminative: 8, generative: 16 }
const MEASURED_MIN = 4
const MEASURED_MAX = 96

/**
 * How many calls one process lets itself have in flight to a server. A given limit is the limit, and shrinks only while
 * the server says that it is busy; else it is found by measuring, from this process's part of what a server of its kind
 * can be expected to do: 8 samples of a reward model, 16 of a judge, llama.cpp's slots, never more than TEI's permits.
 */
export class ServerLimit {
  #limit = new AdaptiveLimit({ initial: 1, min: 1, max: 1, fixed: true })
  #most = Number.POSITIVE_INFINITY
  #key = ''

  /** Takes over what the registry says; what was measured stays unless that changed. */
  update(config: RouterServer, processes: number): void {
    const { maxInFlight, maxConcurrent } = config
    const kind = config.kind ?? 'discriminative'
    const key = `${maxInFlight}/${maxConcurrent}/${config.engine}/${kind}`
    if (key === this.#key) return
    this.#key = key
    this.#most = maxInFlight ?? maxConcurrent ?? Number.POSITIVE_INFINITY
    if (maxInFlight !== null) {
      this.#limit = new AdaptiveLimit({
        initial: maxInFlight,
        min: 1,
        max: maxInFlight,
        fixed: true,
      })
      return
    }
    const max = Math.min(MEASURED_MAX, maxConcurrent ?? MEASURED_MAX)
    const isLlama = config.engine === 'llamacpp'
    const wanted = isLlama && maxConcurrent != null ? maxConcurrent : MEASURED_FROM[kind]
    const part = (n: number) => Math.max(1, Math.min(max, Math.ceil(n / Math.max(1, processes))))
    this.#limit = new AdaptiveLimit({
      initial: part(wanted),
      min: isLlama ? 1 : part(MEASURED_MIN),
      max,
      fixed: false,
    })
  }

  /** What the search of a limit is told of the calls. */
  get search(): AdaptiveLimit {
    return this.#limit
  }

  /** Most calls in flight from this process now. */
  get most(): number {
    return Math.min(this.#limit.limit, this.#most)
  }
}
