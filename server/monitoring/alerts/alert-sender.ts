import { MAX_ATTEMPTS } from '../../contract/alerts.ts'
import type { Logger } from '../../log.ts'
import { type Database, isOutage } from '../../store/database.ts'
import { PeriodicTask } from '../../store/periodic-task.ts'
import {
  type DueDelivery,
  forgetOldEvents,
  noteAttempt,
  takeDueDeliveries,
} from '../../store/sql/alert-outbox.ts'
import { notify } from '../../store/sql/notify.ts'
import { withTimeout } from '../../with-timeout.ts'
import { ANSWER_MS, postWebhook } from './post-webhook.ts'

/** How often deliveries that are due are looked for, ms. */
const TICK_MS = 500
/** Deliveries under way at once: slow receivers stand in nobody's way but one another's. */
const MAX_CONCURRENT = 16
/** A delivery that was taken is its taker's for so long; afterwards whoever took it is dead. */
export const HELD_MS = ANSWER_MS + 5_000
/** A process that stops waits so long for answers. */
const STOP_MS = 1_000
const FIRST_WAIT_MS = 1_000
const MAX_WAIT_MS = 600_000
/** How often events that are too old for the log are looked for. */
const FORGET_EVERY_MS = 3_600_000

/**
 * How long to wait after the n-th attempt: anything up to a bound that doubles, so that many deliveries to a receiver
 * that comes back do not come back together.
 */
export function waitAfter(attempts: number, random: () => number): number | null {
  if (attempts >= MAX_ATTEMPTS) return null
  return random() * Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts - 1))
}

/**
 * Carries alerts to webhooks, at least once: a delivery waits in the database until its receiver has answered with 2xx,
 * whatever happens to this process meanwhile. The event's id is the same in every attempt.
 *
 *   waiting ──taken, held for 15 s──▶ 2xx ──▶ delivered
 *      ▲                               │
 *      └──── full jitter ◀── anything else, or nobody ──15 times──▶ gave_up
 */
export class AlertSender {
  readonly #db: Database
  readonly #log: Logger
  readonly #sending = new Set<Promise<void>>()
  readonly #looking: PeriodicTask
  readonly #forgetting: PeriodicTask

  constructor(db: Database, log: Logger) {
    this.#db = db
    this.#log = log
    this.#looking = new PeriodicTask({
      everyMs: TICK_MS,
      failed: 'alerts were not looked for',
      log,
      work: () => this.#look(),
    })
    this.#forgetting = new PeriodicTask({
      everyMs: FORGET_EVERY_MS,
      atStart: true,
      failed: 'old alerts were not forgotten',
      log,
      work: () => this.#forget(),
    })
  }

  start(): void {
    this.#looking.start()
    this.#forgetting.start()
  }

  /** Looks now: there may be something to send. */
  wake(): void {
    void this.#looking.run()
  }

  /** What is under way may still be answered for a moment; what is not is sent again by the next process. */
  async stop(): Promise<void> {
    await Promise.all([this.#looking.stop(), this.#forgetting.stop()])
    await withTimeout(Promise.all(this.#sending), STOP_MS)
  }

  async #look(): Promise<void> {
    const room = MAX_CONCURRENT - this.#sending.size
    if (room <= 0) return
    for (const due of await takeDueDeliveries(this.#db, room, HELD_MS)) {
      const sending = this.#send(due)
        .catch((error: Error) => {
          // It is sent again when it is nobody's any more.
          if (!isOutage(error)) this.#log.warn({ err: error.message }, 'a delivery was not noted')
        })
        .finally(() => this.#sending.delete(sending))
      this.#sending.add(sending)
    }
  }

  async #send(due: DueDelivery): Promise<void> {
    const { id, event_id, attempts, payload, webhook } = due
    const body = JSON.stringify(payload)
    const answer = await postWebhook(due, { id: event_id, attempt: attempts, body })
    const wait = answer.delivered ? null : waitAfter(attempts, Math.random)
    const asked = Math.min(MAX_WAIT_MS, answer.retryAfterMs ?? 0)
    await noteAttempt(this.#db, id, {
      ...answer,
      againMs: wait === null ? null : Math.max(wait, asked),
    })
    if (!answer.delivered && wait === null) {
      // Its address may hold a key: the name says which it is.
      this.#log.warn({ webhook, error: answer.error, attempts }, 'an alert was not delivered')
    }
    await notify(this.#db.pool, 'm')
  }

  async #forget(): Promise<void> {
    while (!this.#forgetting.stopping && (await forgetOldEvents(this.#db)));
  }
}
