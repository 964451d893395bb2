import type { Database } from '../database.ts'

/** A process as it registers. */
export interface NewProcess {
  host: string
  pid: number
  /** Of a worker: a server of this host started it. */
  local: boolean
  role: 'server' | 'worker'
  /** Schema version of its program. */
  version: number
  /** The schema of its SQL functions. */
  functions: string
}

/** Registers a process; gives its id. */
export async function insertProcess(db: Database, process: NewProcess): Promise<number> {
  const { host, pid, local, role, version, functions } = process
  const [row] = await db.adhoc<{ id: number }>(
    `insert into process (host, pid, local, state, role, version, functions)
     values ($1, $2, $3, 'alive', $4, $5, $6) returning id`,
    [host, pid, local, role, version, functions],
  )
  return row!.id
}

/** Notes that a process lives and what it does, and tells the servers; gives the database's time. */
export async function reportProcess(
  db: Database,
  id: number,
  state: string,
  stats: object,
): Promise<Date> {
  const [row] = await db.rows<{ now: Date }>(
    'process-report',
    `with r as (update process set last_seen_at = clock_timestamp(), state = $3, stats = $2 where id = $1)
     select pg_notify('rewardops', 'w'), clock_timestamp() as now`,
    [id, JSON.stringify(stats), state],
  )
  return row!.now
}

/** Notes that a process takes no new work. */
export async function noteStopping(db: Database, id: number): Promise<void> {
  await db.adhoc("update process set state = 'stopping' where id = $1", [id])
}

/** Notes that a process has ended. */
export async function noteEnded(db: Database, id: number): Promise<void> {
  await db.adhoc(
    "update process set state = 'dead', ended_at = clock_timestamp(), last_seen_at = clock_timestamp() where id = $1",
    [id],
  )
}
