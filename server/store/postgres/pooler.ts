import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { connectSession, isTooManyConnections } from '../session.ts'

/** How many connections try to take the first one's place; a pool with more than that idle hides it. */
const RIVALS = 4
const ANSWER_MS = 5_000

/** Rivals that begin a transaction, as many as the pool has connections for: a small pool makes the last one wait. */
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
 * Whether a connection loses its session between transactions, as behind PgBouncer in transaction mode.
 * Postgres itself is told by the backend's pid, which it also announces when a connection opens; a
 * pooler makes a number up. Behind one, a setting is made, others hold transactions open, and a
 * pooler in transaction mode then answers from a backend without the setting, or not at all.
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
      // Drawn by lot: what an earlier probe set is still there in the pooler's connections.
      const mark = randomUUID()
      await probe.query(`set rewardops.session = '${mark}'`)
      await hold(open)
      const kept = await probe.query<{ value: string | null }>(
        `select current_setting('rewardops.session', true) as value`,
      )
      return kept.rows[0]?.value !== mark
    } catch (error) {
      if (isTooManyConnections(error)) throw error
      // Nothing was left for the probe: its session was not its own.
      return true
    }
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => {})))
  }
}
