import type { ScoreInput } from '../engines/engine.ts'
import type { RoutedSample } from './routed-sample.ts'

/** All processes together send a server at most one canary per this interval. */
const INTERVAL_MS = 1_000
/**
 * A server that has refused this many different samples in a row must score a canary before it receives more samples.
 */
const REFUSALS_TO_PROBE = 8
/**
 * Maximum number of refusals before a canary. The number starts at {@link REFUSALS_TO_PROBE} and doubles with every
 * canary scored while refusals continue.
 */
const MAX_REFUSALS_TO_PROBE = 1_024

/** The text of the first canary, which any reward model can score. */
const FIXED: ScoreInput = { prompt: 'What is 1 + 1?', response: '1 + 1 is 2.' }

/**
 * Decides whether a server's refusals are justified. A refused sample waits if no other server can confirm or overrule
 * the refusal. When the server then scores a canary, the refusal is the sample's fault. A server that refuses several
 * samples in a row, or gives an answer that no sample can cause, receives no samples until it has scored a canary.
 */
export class ServerCanary {
  readonly held = new Set<RoutedSample>()
  /** Whether the server receives no samples until it has scored a canary. */
  isBlocking = false
  isOut = false
  /** Time of the last failed canary, on the clock of `performance.now()`. Earlier refusals do not count. */
  failedAtMs = Number.NEGATIVE_INFINITY
  /** Number of different samples refused since the last score. */
  streak = 0
  #refusalsToProbe = REFUSALS_TO_PROBE
  #isRequested = false
  #blockedAtMs = Number.NEGATIVE_INFINITY
  #sentAtMs = Number.NEGATIVE_INFINITY
  #passedAtMs = Number.NEGATIVE_INFINITY
  #intervalMs = INTERVAL_MS
  #about: RoutedSample[] = []
  #timer: NodeJS.Timeout | null = null
  /** The shortest text that the server has scored, for canaries after it has refused the fixed text. */
  #known: ScoreInput | null = null
  #knownChars = Number.POSITIVE_INFINITY
  /** Whether the server refused the fixed text, perhaps because of the text itself. */
  #fixedRefused = false
  #isMissed = false

  set processes(processes: number) {
    this.#intervalMs = INTERVAL_MS * processes
  }

  get isWanted(): boolean {
    return this.isBlocking || this.#isRequested || this.held.size > 0
  }

  /** Earliest time of the next canary, on the clock of `performance.now()`. */
  get dueAtMs(): number {
    return this.#sentAtMs + this.#intervalMs
  }

  /** Whether the server has scored a sample before. If so, a refused canary is the server's fault. */
  get hasScored(): boolean {
    return this.#known !== null
  }

  scored(): void {
    if (this.streak === 0) return
    this.streak = 0
    this.#refusalsToProbe = REFUSALS_TO_PROBE
  }

  knows(input: ScoreInput, chars: number): void {
    if (chars >= this.#knownChars) return
    this.#known = input
    this.#knownChars = chars
  }

  /** Records that the server refused a sample that it had not refused before. */
  refused(nowMs: number): void {
    if (++this.streak >= this.#refusalsToProbe) this.#block(nowMs)
  }

  /**
   * Records an answer that no sample can cause. The server then receives no samples until it has scored a canary,
   * unless it has just scored one, because the samples' texts may then be the cause after all.
   */
  broke(nowMs: number): void {
    this.#isRequested = true
    if (nowMs - this.#passedAtMs >= this.#intervalMs) this.#block(nowMs)
  }

  /**
   * The text of the next canary, or null if there is no text that the server should be able to score. `isCustom` is
   * true for a custom scorer, which may reject made-up texts.
   */
  text(isCustom: boolean): ScoreInput | null {
    return isCustom || this.#fixedRefused ? this.#known : FIXED
  }

  /** Records that a canary is sent to check the refused samples that are now waiting. */
  begin(nowMs: number): void {
    this.isOut = true
    this.#isRequested = false
    this.#sentAtMs = nowMs
    this.#about = [...this.held]
  }

  /** Records a scored canary. Releases and returns the samples whose refusals the canary confirms. */
  passed(nowMs: number): RoutedSample[] {
    this.isOut = false
    this.#fixedRefused = false
    this.#isMissed = false
    this.#passedAtMs = nowMs
    if (this.#blockedAtMs <= this.#sentAtMs) {
      this.isBlocking = false
      if (this.streak >= this.#refusalsToProbe) {
        this.#refusalsToProbe = Math.min(MAX_REFUSALS_TO_PROBE, 2 * this.#refusalsToProbe)
      }
      this.streak = 0
    }
    const confirmed = this.#about.filter((sample) => this.held.has(sample))
    this.#about = []
    for (const sample of confirmed) this.#free(sample)
    return confirmed
  }

  /** Handles a refused canary. Returns true if another text should be tried, because this one may be at fault. */
  triesAnother(isCustom: boolean): boolean {
    if (isCustom || this.#fixedRefused || this.#known === null) return false
    this.#fixedRefused = true
    this.undecided()
    return true
  }

  /** Handles a canary that ended with a fault. Returns true the first time: the caller should
   * then send another canary. */
  missed(): boolean {
    if (this.#isMissed) return false
    this.#isMissed = true
    this.undecided()
    return true
  }

  /** Handles a canary without a result (busy, connection race, cancelled). Another one should be sent. */
  undecided(): void {
    this.isOut = false
    this.#isRequested = true
    this.#about = []
  }

  /** Handles a failed canary. Releases and returns the held samples, which should be retried. */
  failed(nowMs: number, block: boolean): RoutedSample[] {
    this.isOut = false
    this.#fixedRefused = false
    this.#isMissed = false
    this.failedAtMs = nowMs
    this.streak = 0
    this.isBlocking = false
    if (block) this.#block(nowMs)
    return this.release()
  }

  /** Releases and returns all held samples. Their refusals remain undecided. */
  release(): RoutedSample[] {
    const samples = [...this.held]
    this.#about = []
    for (const sample of samples) this.#free(sample)
    return samples
  }

  hold(sample: RoutedSample): void {
    this.held.add(sample)
    sample.heldBy = this
  }

  wake(nowMs: number, onDue: () => void): void {
    if (this.#timer !== null) return
    // Timers may fire up to 1 ms early on this clock.
    this.#timer = setTimeout(
      () => {
        this.#timer = null
        onDue()
      },
      Math.max(0, Math.ceil(this.dueAtMs - nowMs)) + 1,
    )
    this.#timer.unref()
  }

  reset(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.isBlocking = false
    this.#isRequested = false
    this.streak = 0
    this.#known = null
    this.#knownChars = Number.POSITIVE_INFINITY
    this.#fixedRefused = false
  }

  #block(nowMs: number): void {
    if (!this.isBlocking) this.#blockedAtMs = nowMs
    this.isBlocking = true
  }

  #free(sample: RoutedSample): void {
    this.held.delete(sample)
    sample.heldBy = null
  }
}
