import { RewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'

/** Number of wrong keys from an address that are answered with `unauthorized` before its back-off begins. */
const FREE = 10
const FIRST_WAIT_MS = 1_000
const LONGEST_WAIT_MS = 60_000
const FORGET_MS = 15 * 60_000
/**
 * Maximum number of addresses in memory, about 2 MB together. The address whose last wrong key is oldest is forgotten
 * first.
 */
const MAX_ADDRESSES = 10_000
const LOG_EVERY_MS = 10_000
/** Maximum number of back-offs reported per hour. Each report becomes an entry of the audit log. */
const MAX_REPORTS_PER_HOUR = 60
const HOUR_MS = 3_600_000

interface Sender {
  wrong: number
  waitUntilMs: number
  lastMs: number
}

/**
 * Slows down addresses that send wrong keys, at sign-in and on every other call. Only wrong keys are refused: a
 * valid key works from the same address, because otherwise one misconfigured client would lock out all other clients
 * behind the same proxy. Keys still cannot be guessed, because they have at least 80 random bits.
 */
export class WrongKeys {
  readonly #log: Logger
  readonly #now: () => number
  readonly #senders = new Map<string, Sender>()
  #unauthorized = 0
  #delayed = 0
  #loggedAtMs = Number.NEGATIVE_INFINITY
  #loggedCount = 0
  #hourBeganMs = Number.NEGATIVE_INFINITY
  #reports = 0
  /** Called when the back-off of an address begins, with the number of its wrong keys. */
  onBackOff: (address: string, wrong: number) => void = () => {}

  constructor(log: Logger, now = () => performance.now()) {
    this.#log = log
    this.#now = now
  }

  get counts(): { unauthorized: number; tooMany: number } {
    return { unauthorized: this.#unauthorized, tooMany: this.#delayed }
  }

  /**
   * Counts a wrong key, which the caller then refuses.
   * @throws RewardOpsError `too_many_wrong_keys` during the back-off of the address
   */
  add(address: string): void {
    const now = this.#now()
    const network = networkOf(address)
    const sender = this.#senderOf(network, now)
    const waitMs = sender.waitUntilMs - now
    if (waitMs > 0) {
      this.#delayed++
      this.#write(address, now)
      throw new RewardOpsError('too_many_wrong_keys', `Too many wrong keys came from ${address}.`, {
        retryAfterMs: waitMs,
      })
    }
    this.#unauthorized++
    sender.wrong++
    sender.lastMs = now
    this.#senders.delete(network)
    this.#senders.set(network, sender)
    if (this.#senders.size > MAX_ADDRESSES) {
      this.#senders.delete(this.#senders.keys().next().value as string)
    }
    const over = sender.wrong - FREE
    if (over >= 0) {
      sender.waitUntilMs = now + Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(over, 10))
    }
    if (over === 0) this.#report(address, sender.wrong, now)
    this.#write(address, now)
  }

  #senderOf(network: string, now: number): Sender {
    const known = this.#senders.get(network)
    return known !== undefined && now - known.lastMs < FORGET_MS
      ? known
      : { wrong: 0, waitUntilMs: 0, lastMs: now }
  }

  #report(address: string, wrong: number, now: number): void {
    if (now - this.#hourBeganMs >= HOUR_MS) {
      this.#hourBeganMs = now
      this.#reports = 0
    }
    if (++this.#reports <= MAX_REPORTS_PER_HOUR) this.onBackOff(address, wrong)
  }

  #write(address: string, now: number): void {
    if (now - this.#loggedAtMs < LOG_EVERY_MS) return
    const count = this.#unauthorized + this.#delayed
    this.#log.warn({ address, wrongKeys: count - this.#loggedCount }, 'wrong API keys were refused')
    this.#loggedAtMs = now
    this.#loggedCount = count
  }
}

/** The network of an address: an IPv4 address itself, or the first 64 bits of an IPv6 address, which one client owns. */
function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const [head = '', tail] = address.split('::', 2)
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - before.length - after.length)
  return [...before, ...Array<string>(zeros).fill('0'), ...after].slice(0, 4).join(':')
}
