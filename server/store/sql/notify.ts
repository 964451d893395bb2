import type { ClientBase } from 'pg'

/**
 * Notifies every process, at the commit if the client is in a transaction. The first letter names the kind of change,
 * the rest the object, such as `b12` for batch 12.
 */
export async function notify(client: Pick<ClientBase, 'query'>, message: string): Promise<void> {
  await client.query("select pg_notify('rewardops', $1)", [message])
}
