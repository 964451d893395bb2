import { AdaptiveLimit } from './concurrency-limit.ts'
import type { RouterServer } from './router-types.ts'

/** Initial value and bounds of an adaptive limit, over all processes. */
const MEASURED_FROM = { discriminative: 8, generative: 16 }
const MEASURED_MIN = 4
const MEASURED_MAX = 96

/**
 * Limits the calls in flight from one process to a server. A configured limit applies as it is and shrinks only while the
 * server is busy. An adaptive one starts from this process's part of the usual limit for its kind: 8 samples for a reward
 * model, 16 for a judge, the slots of llama.cpp, and at most TEI's permits.
 */
export class ServerLimit {
  #limit = new AdaptiveLimit({ initial: 1, min: 1, max: 1, fixed: true })
  #most = Number.POSITIVE_INFINITY
  #key = ''

  /** Applies the registered settings; measurements are kept unless the settings changed. */
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

  /** The adaptive limit, which is notified of the calls. */
  get search(): AdaptiveLimit {
    return this.#limit
  }

  /** Maximum calls in flight from this process now. */
  get most(): number {
    return Math.min(this.#limit.limit, this.#most)
  }
}
