import type { ScoreInput } from '../engines/engine.ts'
import type { RoutedSample } from './routed-sample.ts'

/** A server is asked at most once in so long by all processes together. */
const ASK_EVERY_MS = 1_000
/** Different samples refused in a row, without a score between, after which a server is asked before it gets more. */
const REFUSALS_TO_ASK = 8
/** …doubled by every canary that was scored while the refusals went on, at most to this. */
const REFUSALS_TO_ASK_MAX = 1_024

/** A text that any reward model scores: what the canary asks first. */
const FIXED: ScoreInput = { prompt: 'What is 1 + 1?', response: '1 + 1 is 2.' }

/**
 * Whether a server's refusals are to be believed. A sample that it refused, and that no other server can be asked about,
 * is held until a canary, a text sent after the refusal, was scored: then the refusal is the sample's own. A server that
 * refuses one sample after the other, or answers what no sample can be to blame for, gets no more until its canary was
 * scored.
 */
export class ServerCanary {
  /** Samples that it refused and that wait for a canary sent since. */
  readonly held = new Set<RoutedSample>()
  /** No sample is sent before a canary was scored. */
  blocking = false
  /** A canary is out. */
  isOut = false
  /** When a canary was last refused or lost, on the clock of `performance.now()`: what it said before that counts for nothing. */
  failedAtMs = Number.NEGATIVE_INFINITY
  /** Different samples refused since its last score. */
  streak = 0
  #refusalsToAsk = REFUSALS_TO_ASK
  #isAsked = false
  #blockedAtMs = Number.NEGATIVE_INFINITY
  #askedAtMs = Number.NEGATIVE_INFINITY
  #passedAtMs = Number.NEGATIVE_INFINITY
  #askEveryMs = ASK_EVERY_MS
  #about: RoutedSample[] = []
  #timer: NodeJS.Timeout | null = null
  /** The shortest text it has scored, for where it does not take the fixed one. */
  #known: ScoreInput | null = null
  #knownChars = Number.POSITIVE_INFINITY
  /** The fixed text was refused, which may be its own fault: the known one is asked next. */
  #fixedRefused = false
  #isMissed = false

  /** So many processes ask the server, each its part of the time. */
  set processes(processes: number) {
    this.#askEveryMs = ASK_EVERY_MS * processes
  }

  /** A canary is to be sent as soon as it may be. */
  get isWanted(): boolean {
    return this.blocking || this.#isAsked || this.held.size > 0
  }

  /** When the next may be sent. */
  get dueAtMs(): number {
    return this.#askedAtMs + this.#askEveryMs
  }

  /** It scored samples before: a canary that it refuses then is its fault. */
  get hasScored(): boolean {
    return this.#known !== null
  }

  /** A sample was scored. */
  scored(): void {
    if (this.streak === 0) return
    this.streak = 0
    this.#refusalsToAsk = REFUSALS_TO_ASK
  }

  /** Keeps a text that it scored, if it is the shortest so far. */
  knows(input: ScoreInput, chars: number): void {
    if (chars >= this.#knownChars) return
    this.#known = input
    this.#knownChars = chars
  }

  /** It refused a sample that it had not refused before. */
  refused(nowMs: number): void {
    if (++this.streak >= this.#refusalsToAsk) this.#block(nowMs)
  }

  /** It answered what no sample can be to blame for. Where it has just scored a canary, that may be about one text after all. */
  broke(nowMs: number): void {
    this.#isAsked = true
    if (nowMs - this.#passedAtMs >= this.#askEveryMs) this.#block(nowMs)
  }

  /** The text to send; null: there is none that it could be expected to score. `own`: a scorer of one's own, which may take no made-up text. */
  text(own: boolean): ScoreInput | null {
    return own || this.#fixedRefused ? this.#known : FIXED
  }

  /** A canary goes out, about the samples held now. */
  begin(nowMs: number): void {
    this.isOut = true
    this.#isAsked = false
    this.#askedAtMs = nowMs
    this.#about = [...this.held]
  }

  /** It was scored: the samples whose refusals that confirms, which are held no longer. */
  passed(nowMs: number): RoutedSample[] {
    this.isOut = false
    this.#fixedRefused = false
    this.#isMissed = false
    this.#passedAtMs = nowMs
    if (this.#blockedAtMs <= this.#askedAtMs) {
      this.blocking = false
      if (this.streak >= this.#refusalsToAsk) {
        this.#refusalsToAsk = Math.min(REFUSALS_TO_ASK_MAX, 2 * this.#refusalsToAsk)
      }
      this.streak = 0
    }
    const confirmed = this.#about.filter((sample) => this.held.has(sample))
    this.#about = []
    for (const sample of confirmed) this.#free(sample)
    return confirmed
  }

  /** It was refused: true where another text is to be tried, because that one may be to blame. */
  triesAnother(own: boolean): boolean {
    if (own || this.#fixedRefused || this.#known === null) return false
    this.#fixedRefused = true
    this.undecided()
    return true
  }

  /** It met an error or a broken connection: true where another one is to be sent, because that may happen once. */
  missed(): boolean {
    if (this.#isMissed) return false
    this.#isMissed = true
    this.undecided()
    return true
  }

  /** It tells nothing (busy, connection race): another one is due. */
  undecided(): void {
    this.isOut = false
    this.#isAsked = true
    this.#about = []
  }

  /** It was not scored: the samples held, which are to be tried again. */
  failed(nowMs: number, block: boolean): RoutedSample[] {
    this.isOut = false
    this.#fixedRefused = false
    this.#isMissed = false
    this.failedAtMs = nowMs
    this.streak = 0
    this.blocking = false
    if (block) this.#block(nowMs)
    return this.release()
  }

  /** Samples are held no longer: the server cannot be asked. */
  release(): RoutedSample[] {
    const samples = [...this.held]
    this.#about = []
    for (const sample of samples) this.#free(sample)
    return samples
  }

  /** Holds a sample until a canary tells. */
  hold(sample: RoutedSample): void {
    this.held.add(sample)
    sample.heldBy = this
  }

  /** Calls back when the next may be sent. */
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

  /** Another server is behind the name now, or none. */
  reset(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    this.blocking = false
    this.#isAsked = false
    this.streak = 0
    this.#known = null
    this.#knownChars = Number.POSITIVE_INFINITY
    this.#fixedRefused = false
  }

  #block(nowMs: number): void {
    if (!this.blocking) this.#blockedAtMs = nowMs
    this.blocking = true
  }

  #free(sample: RoutedSample): void {
    this.held.delete(sample)
    sample.heldBy = null
  }
}
