import type { ClientBase } from 'pg'

/**
 * Notifies every process, with the commit where the client is in a transaction. The first letter says what changed, the
 * rest which one, such as `b12` for batch 12.
 */
export async function notify(client: Pick<ClientBase, 'query'>, message: string): Promise<void> {
  await client.query("select pg_notify('rewardops', $1)", [message])
}
