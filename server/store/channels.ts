import type { ClientBase } from 'pg'

/**
 * The notifications that processes send each other through Postgres, by name, with the first letter of their payload. A
 * payload is that letter and an id, without data. Receivers also poll, because a notification may be lost. The SQL
 * functions in `functions/` repeat some of the letters; a test compares them with this list.
 */
export const NOTIFICATIONS = {
  /**
   * A batch got samples, completed groups, ended or was rolled up: `b<batch>`. Servers wake long polls and make
   * open pages refetch.
   */
  batchChanged: 'b',
  /** A sample of a batch with `fail_batch` failed: `f<batch>`. A server ends the samples that are still pending. */
  batchFailed: 'f',
  /** The pending samples of a batch were ended: `x<batch>`. Workers drop those samples. */
  batchEnded: 'x',
  /** Jobs were queued: `q<pool>`, or `q<pool>:<turn>` if one worker is enough. Workers of the pool fetch jobs. */
  jobsQueued: 'q',
  /** A server or a pool changed: `s`. Every process reads the registry again. */
  serversChanged: 's',
  /** A process reported or was declared dead: `w`. Servers make open pages refetch. */
  workersChanged: 'w',
  /**
   * A key or a login session changed, or the setting that requires API keys: `a`. Servers read keys and sessions
   * again.
   */
  keysChanged: 'a',
  /** An incident, its delivery or a webhook changed: `m`. Servers make open pages refetch. */
  monitorsChanged: 'm',
  /** A mark on a run's charts changed: `k`. Servers make open pages refetch. */
  marksChanged: 'k',
  /** The configuration, the tags or the roll-up of a run changed: `r`. Servers make open pages refetch. */
  runsChanged: 'r',
} as const

export type NotificationName = keyof typeof NOTIFICATIONS

/** The handlers of a process. `id` is empty for notifications that carry none. */
export type NotificationHandlers = { [name in NotificationName]?: (id: string) => void }

export const CHANNEL = 'rewardops'

export function payloadOf(name: NotificationName, id: number | string = ''): string {
  return `${NOTIFICATIONS[name]}${id}`
}

/** SQL that notifies every process. `id` is the SQL of the id, for notifications that carry one. */
export function notifySql(name: NotificationName, id?: string): string {
  return `pg_notify('${CHANNEL}', '${payloadOf(name)}'${id === undefined ? '' : ` || ${id}`})`
}

/** Notifies every process, at the commit if the client is in a transaction. */
export async function notify(
  client: Pick<ClientBase, 'query'>,
  name: NotificationName,
  id?: number | string,
): Promise<void> {
  await client.query(`select pg_notify('${CHANNEL}', $1)`, [payloadOf(name, id)])
}

const NAMES = new Map(
  Object.entries(NOTIFICATIONS).map(([name, letter]) => [
    letter as string,
    name as NotificationName,
  ]),
)

/** Calls the handler of a payload. Unknown letters are ignored, because a newer version may send them. */
export function handleNotification(payload: string, handlers: NotificationHandlers): void {
  const name = NAMES.get(payload.slice(0, 1))
  if (name !== undefined) handlers[name]?.(payload.slice(1))
}
