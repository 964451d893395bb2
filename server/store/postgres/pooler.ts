import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { connectSession, isTooManyConnections } from '../session.ts'

/**
 * Number of connections that compete for the backend of the probed connection. A pooler with more idle backends is not
 * detected.
 */
const RIVALS = 4
const ANSWER_MS = 5_000

/**
 * Opens transactions on up to {@link RIVALS} other connections, until the pooler has no free backend, and keeps them
 * open.
 */
async function hold(open: () => Promise<pg.Client>): Promise<void> {
  for (let n = 0; n < RIVALS; n++) {
    const rival = await open()
    try {
      await rival.query('begin')
    } catch {
      return
    }
  }
}

/**
 * Whether a connection loses its session between transactions, as behind PgBouncer in transaction mode. The probe
 * changes a setting while other connections hold transactions open. A pooler in transaction mode then answers from a
 * backend without that setting, or not at all.
 */
export async function isTransactionPooler(url: string): Promise<boolean> {
  const clients: pg.Client[] = []
  const open = async () => {
    const client = await connectSession(url, {
      connectTimeoutMs: ANSWER_MS,
      queryTimeoutMs: ANSWER_MS,
    })
    clients.push(client)
    return client
  }
  try {
    const probe = await open()
    const announced = (probe as unknown as { processID: number | null }).processID
    const { rows } = await probe.query<{ pid: number }>('select pg_backend_pid() as pid')
    if (rows[0]?.pid === announced) return false
    try {
      // The value is random, because the pooler's backends may still hold the setting of an earlier probe.
      const mark = randomUUID()
      await probe.query(`set rewardops.session = '${mark}'`)
      await hold(open)
      const kept = await probe.query<{ value: string | null }>(
        `select current_setting('rewardops.session', true) as value`,
      )
      return kept.rows[0]?.value !== mark
    } catch (error) {
      if (isTooManyConnections(error)) throw error
      // The pooler had no backend left for the probe, so the probe does not have a session of its own.
      return true
    }
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => {})))
  }
}
