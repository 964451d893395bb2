import { notifySql } from '../channels.ts'
import type { Client, Database } from '../database.ts'
import { GONE_AFTER_MS } from '../schema-version.ts'

/** SQL of the lowest version of the running processes; null if none is running. */
const OLDEST_VERSION = `(select min(version) from process where state <> 'dead'
  and last_seen_at > clock_timestamp() - ${GONE_AFTER_MS} * interval '1 millisecond')`

export interface NewProcess {
  /** The host name and the pid space (server/process-host.ts). */
  host: string
  pid: number
  /** True for a worker that a server on the same host started. */
  local: boolean
  role: 'server' | 'worker'
  /** Schema version of the process's program. */
  version: number
  /** The schema with the program's SQL functions. */
  functions: string
}

/** Registers a process. Returns its id and the lowest version of the other running processes. */
export async function insertProcess(
  db: Database,
  process: NewProcess,
): Promise<{ id: number; oldest: number | null }> {
  const { host, pid, local, role, version, functions } = process
  const [row] = await db.adhoc<{ id: number; oldest: number | null }>(
    `insert into process (host, pid, local, state, role, version, functions)
     values ($1, $2, $3, 'alive', $4, $5, $6) returning id, ${OLDEST_VERSION} as oldest`,
    [host, pid, local, role, version, functions],
  )
  return row!
}

/**
 * Stores a process's report and notifies the servers. Returns the database's time and the lowest version of the running
 * processes. If the process was declared dead and `mayRevive` is false, it stays dead, and `deadForMs` is the time
 * since the declaration. Otherwise `deadForMs` is null.
 */
export async function reportProcess(
  db: Database,
  id: number,
  state: string,
  stats: object,
  mayRevive: boolean,
): Promise<{ now: Date; oldest: number | null; deadForMs: number | null }> {
  const [row] = await db.rows<{ now: Date; oldest: number | null; deadForMs: number | null }>(
    'process-report',
    `with r as (update process set last_seen_at = clock_timestamp(), stats = $2,
                  state = case when state = 'dead' and not $4 then state else $3 end,
                  ended_at = case when $4 then null else ended_at end
                where id = $1 returning state, ended_at)
     select ${notifySql('workersChanged')}, clock_timestamp() as now, ${OLDEST_VERSION} as oldest,
       (select (1000 * extract(epoch from clock_timestamp() - ended_at))::float8
        from r where state = 'dead') as "deadForMs"`,
    [id, JSON.stringify(stats), state, mayRevive],
  )
  return row!
}

export async function noteStopping(db: Database, id: number): Promise<void> {
  await db.adhoc("update process set state = 'stopping' where id = $1", [id])
}

export async function noteEnded(db: Database, id: number): Promise<void> {
  await db.adhoc(
    // Equal times mark a normal end: the end of a worker that died is later than its last report.
    "update process set state = 'dead', ended_at = now(), last_seen_at = now() where id = $1",
    [id],
  )
}

/** Inserts a filler row to check whether the disk has room for it. The caller rolls it back. */
export async function insertProbe(client: Client, filler: string): Promise<void> {
  await client.query(
    `insert into process (host, pid, local, state, role, stats) values ('', 0, false, 'dead', 'probe', $1)`,
    [JSON.stringify(filler)],
  )
}

/** A process that is not known to be dead, or whose jobs have not all been requeued. */
export interface ProcessToCheck {
  id: number
  host: string
  pid: number
}

const TO_CHECK = `select id, host, pid from process
  where (state <> 'dead' or exists (select 1 from claim where worker_id = process.id))`

export async function processesToCheck(
  db: Database,
  host: string,
  pid?: number,
): Promise<ProcessToCheck[]> {
  if (pid === undefined) return db.adhoc(`${TO_CHECK} and host = $1`, [host])
  return db.adhoc(`${TO_CHECK} and host = $1 and pid = $2`, [host, pid])
}

export async function silentProcesses(db: Database, forMs: number): Promise<ProcessToCheck[]> {
  return db.rows(
    'silent-processes',
    `${TO_CHECK} and last_seen_at < clock_timestamp() - $1 * interval '1 millisecond'`,
    [forMs],
  )
}

/** Marks processes as dead. Returns the ids of the processes that were not dead before or still hold jobs. */
export async function markDead(db: Database, ids: readonly number[]): Promise<number[]> {
  const dead = await db.adhoc<{ id: number }>(
    `update process set state = 'dead', ended_at = coalesce(ended_at, now())
     where id = any($1::int[]) and (state <> 'dead' or exists (select 1 from claim where worker_id = process.id))
     returning id`,
    [ids],
  )
  return dead.map(({ id }) => id)
}

export async function countRequeued(db: Database, id: number, samples: number): Promise<void> {
  await db.adhoc('update process set requeued = requeued + $2 where id = $1', [id, samples])
}

/** Takes or renews a server's turn at a kind of background work. Returns false if another server has the turn. */
export async function takeTurn(
  db: Database,
  kind: string,
  processId: number,
  forMs: number,
): Promise<boolean> {
  const rows = await db.rows(
    'take-turn',
    `insert into background_turn as t (kind, process_id, until)
       values ($1, $2, clock_timestamp() + $3 * interval '1 millisecond')
     on conflict (kind) do update set process_id = excluded.process_id, until = excluded.until
       where t.process_id = excluded.process_id or t.until < clock_timestamp()
     returning kind`,
    [kind, processId, forMs],
  )
  return rows.length > 0
}

export async function dropTurns(db: Database, processId: number): Promise<void> {
  await db.adhoc('delete from background_turn where process_id = $1', [processId])
}
