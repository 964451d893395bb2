import type { Logger } from '../server/log.ts'
import { Database } from '../server/store/database.ts'
import { openDatabase } from '../server/store/postgres/connect.ts'

const DAYS = 30
const SERVERS = 8
const WORKERS = 16
const RESTARTS = 60

/** SQL for a latency histogram with its peak near 90 ms. */
const BUCKETS = `array(select case when i between 32 and 48 then 600 / (1 + abs(40 - i)) else 0 end from generate_series(1, 96) i)`

/**
 * Generates 30 days of history of servers and workers, unless the data folder already has it.
 * `dataDir` is the data folder of a service that is not running.
 */
export async function addFleetRows(dataDir: string, log: Logger): Promise<void> {
  const database = await openDatabase({ databaseUrl: null, dataDir, log })
  const db = new Database(database.url, log, { max: 1, name: 'bench' })
  try {
    await addRows(db)
  } finally {
    await db.close()
    await database.close()
  }
}

async function addRows(db: Database): Promise<void> {
  // Seeded runs already have a small history, so only the number of rows shows whether the 30 days were generated.
  const [found] = await db.adhoc<{ n: number }>('select count(*)::int as n from worker_hour')
  if ((found?.n ?? 0) >= WORKERS * DAYS * 24) return
  await db.adhoc(
    `truncate server_slice, server_minute, server_hour, worker_slice, worker_minute, worker_hour, latency_slice, retry_slice`,
  )
  const ids = `(select id from server order by id limit ${SERVERS})`
  const times = (seconds: number) =>
    `generate_series(date_bin('${seconds} seconds', now() - interval '${seconds === 10 ? 1 : DAYS} days', 'epoch'), now(),
       interval '${seconds} seconds')`
  for (const [seconds, suffix] of [
    [10, 'slice'],
    [60, 'minute'],
    [3_600, 'hour'],
  ] as const) {
    const n = seconds / 10
    await db.adhoc(
      `insert into server_${suffix} (server_id, ${suffix === 'minute' ? 'minute, tokens' : 'at'}, requests, errors, retries,
         hedges, busy, corrupt, client, ejections, in_flight_seconds, capacity_seconds, latency_ms)
       select id, t${suffix === 'minute' ? ', 0' : ''}, 100 * ${n}, ${n}, 0, 0, 0, 0, 0, 0, 80 * ${n}, 160 * ${n}, ${BUCKETS}
       from ${ids} s, ${times(seconds)} t`,
    )
    await db.adhoc(
      `insert into worker_${suffix} (worker_id, at, scored, failed, in_flight_seconds, capacity_seconds, loop_p99_ms)
       select ${WORKERS} * (floor(extract(epoch from t) / ${(DAYS * 86_400) / RESTARTS})::int % ${RESTARTS}) + w, t,
         50 * ${n}, ${n}, 80, 160, w from generate_series(1, ${WORKERS}) w, ${times(seconds)} t`,
    )
    await db.adhoc(
      `insert into latency_slice (kind, seconds, at, counts)
       select kind, ${seconds}, t, ${BUCKETS} from unnest('{queue,router,service}'::text[]) kind, ${times(seconds)} t`,
    )
    await db.adhoc(
      `insert into retry_slice (seconds, at, server_id, cause, n)
       select ${seconds}, t, id, cause, ${n} from ${ids} s, ${times(seconds)} t,
         unnest('{fault,stall,busy,corrupt,client,hedge}'::text[]) cause`,
    )
  }
  await db.adhoc(
    `insert into server_event (server_id, kind, "from", "to", cause, at)
     select id, 'health', 'ok', 'ejected', '5 consecutive faults', t
     from ${ids} s, generate_series(now() - interval '${DAYS} days', now(), interval '10 minutes') t`,
  )
}
