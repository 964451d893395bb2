/**
 * The notifications that processes send each other through Postgres, by name, with the letter that their payload begins
 * with. A payload is that letter and an id, never data, and a notification is a hint: its receivers poll as well. SQL sends
 * some of them, from a transaction or from the functions in `functions/`, as `pg_notify('rewardops', 'b12')`.
 */
export const NOTIFICATIONS = {
  /** A batch got samples, completed groups, ended or was rolled up: `b<batch>`. Servers wake long polls and update pages. */
  batchChanged: 'b',
  /** A sample of a batch with `fail_batch` failed: `f<batch>`. A server ends the samples that are still pending. */
  batchFailed: 'f',
  /** The pending samples of a batch were ended: `x<batch>`. Workers drop those that they hold. */
  batchEnded: 'x',
  /** Jobs were queued: `q<pool>`, or `q<pool>:<turn>` where one worker is enough. Workers of the pool fetch jobs. */
  jobsQueued: 'q',
  /** A server or a pool changed: `s`. Every process reads the registry again. */
  serversChanged: 's',
  /** A worker started, reported or ended: `w`. Servers update pages. */
  workersChanged: 'w',
  /** A key was made, renamed or revoked, or keys became required: `a`. Servers read the keys again. */
  keysChanged: 'a',
  /** An incident, its delivery or a webhook changed: `m`. Servers update pages. */
  monitorsChanged: 'm',
  /** A mark on a run's charts changed: `k`. Servers update pages. */
  marksChanged: 'k',
} as const

/** The name of a notification. */
export type NotificationName = keyof typeof NOTIFICATIONS

/** What a process does when it receives a notification. `id` is empty for those without one. */
export type NotificationHandlers = { [name in NotificationName]?: (id: string) => void }

/** The Postgres channel of all notifications. */
export const CHANNEL = 'rewardops'

const NAMES = new Map(
  Object.entries(NOTIFICATIONS).map(([name, letter]) => [
    letter as string,
    name as NotificationName,
  ]),
)

/** Calls the handler of a payload. Payloads of unknown letters are ignored: a newer version may send them. */
export function handleNotification(payload: string, handlers: NotificationHandlers): void {
  const name = NAMES.get(payload.slice(0, 1))
  if (name !== undefined) handlers[name]?.(payload.slice(1))
}
