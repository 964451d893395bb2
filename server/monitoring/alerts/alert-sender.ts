import { MAX_ATTEMPTS } from '../../contract/alerts.ts'
import type { Logger } from '../../log.ts'
import { notify } from '../../store/channels.ts'
import { type Database, isOutage } from '../../store/database.ts'
import { PeriodicTask } from '../../store/periodic-task.ts'
import {
  type DueDelivery,
  deleteOldEvents,
  noteAttempt,
  takeDueDeliveries,
} from '../../store/sql/alert-outbox.ts'
import { withTimeout } from '../../with-timeout.ts'
import { alertBody } from './alert-payload.ts'
import { ANSWER_MS, postWebhook } from './post-webhook.ts'

const TICK_MS = 500
const MAX_CONCURRENT = 16
/** Time for which a process holds a claimed delivery, ms. After that, any process may claim the delivery again. */
export const CLAIM_MS = ANSWER_MS + 5_000
const STOP_MS = 1_000
const FIRST_WAIT_MS = 1_000
const MAX_WAIT_MS = 600_000
const FORGET_EVERY_MS = 3_600_000

/**
 * Returns the wait in ms after the given number of attempts, or null if there is no further attempt. The wait is
 * random, up to a limit that doubles, so that deliveries to a recovered receiver do not all arrive together.
 */
export function waitAfter(attempts: number, random: () => number): number | null {
  if (attempts >= MAX_ATTEMPTS) return null
  return random() * Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts - 1))
}

/**
 * Delivers alerts to webhooks at least once. A delivery stays in the database until its receiver answers with 2xx, even
 * if this process dies. All attempts carry the same event id.
 *
 *   waiting ──claimed for 15 s──▶ 2xx ──▶ delivered
 *      ▲                               │
 *      └──── full jitter ◀── another or no answer ──15 times──▶ gave_up
 */
export class AlertSender {
  readonly #db: Database
  readonly #basePath: string
  readonly #log: Logger
  readonly #sending = new Set<Promise<void>>()
  readonly #looking: PeriodicTask
  readonly #forgetting: PeriodicTask

  constructor(db: Database, basePath: string, log: Logger) {
    this.#db = db
    this.#basePath = basePath
    this.#log = log
    this.#looking = new PeriodicTask({
      everyMs: TICK_MS,
      failed: 'due alerts were not read',
      log,
      work: () => this.#look(),
    })
    this.#forgetting = new PeriodicTask({
      everyMs: FORGET_EVERY_MS,
      atStart: true,
      failed: 'old alerts were not removed',
      log,
      work: () => this.#forget(),
    })
  }

  start(): void {
    this.#looking.start()
    this.#forgetting.start()
  }

  wake(): void {
    void this.#looking.run()
  }

  /** Waits briefly for deliveries in progress. Another process repeats deliveries that got no answer. */
  async stop(): Promise<void> {
    await Promise.all([this.#looking.stop(), this.#forgetting.stop()])
    await withTimeout(Promise.all(this.#sending), STOP_MS)
  }

  async #look(): Promise<void> {
    const room = MAX_CONCURRENT - this.#sending.size
    if (room <= 0) return
    for (const due of await takeDueDeliveries(this.#db, room, CLAIM_MS)) {
      const sending = this.#send(due)
        .catch((error: Error) => {
          // The delivery is repeated when its claim has expired.
          if (!isOutage(error))
            this.#log.warn({ err: error.message }, 'a delivery was not recorded')
        })
        .finally(() => this.#sending.delete(sending))
      this.#sending.add(sending)
    }
  }

  async #send(due: DueDelivery): Promise<void> {
    const { id, event_id, attempts, payload, webhook, target } = due
    const body = alertBody(payload, this.#basePath)
    const answer = await postWebhook(target, { id: event_id, attempt: attempts, body })
    const wait = answer.delivered ? null : waitAfter(attempts, Math.random)
    const requestedMs = Math.min(MAX_WAIT_MS, answer.retryAfterMs ?? 0)
    await noteAttempt(this.#db, id, {
      ...answer,
      againMs: wait === null ? null : Math.max(wait, requestedMs),
    })
    if (!answer.delivered && wait === null) {
      // The URL may contain a key, so only the name is logged.
      this.#log.warn({ webhook, error: answer.error, attempts }, 'an alert was not delivered')
    }
    await notify(this.#db.pool, 'monitorsChanged')
  }

  async #forget(): Promise<void> {
    while (!this.#forgetting.stopping && (await deleteOldEvents(this.#db)));
  }
}
