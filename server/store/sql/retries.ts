import type { Database } from '../database.ts'

/**
 * Failed attempts since `$1` that were retried: the newest `$2`. A retry is an attempt after the first of its call, as
 * `attemptsIn` counts them. Attempts carry no number of their call, and a sample may have several concurrent calls
 * (votes of a judge, components). So the failures of one attempt number are paired in order with the attempts of the
 * next number: each failure has at most one retry, also if the retry is hedged. Connections that were closed on reuse
 * and recalled calls are neither failures nor retries.
 */
const RETRIED = `
  with failed as materialized (
    select batch_id, idx, attempt, server_id, started_at, service_ms, coalesce(reason, outcome) as reason
    from attempt
    where started_at > now() - $1::interval and server_id is not null
      and outcome not in ('ok', 'superseded', 'conn_race', 'recalled')
    order by started_at desc limit $2
  ), retried as (
    select f.server_id, f.started_at, f.reason, r.server_id as retried_on
    from (select *, row_number() over (partition by batch_id, idx, attempt
                                       order by started_at + service_ms * interval '1 ms') as n from failed) f
    join (select a.batch_id, a.idx, a.attempt, a.server_id,
                 row_number() over (partition by a.batch_id, a.idx, a.attempt
                                    order by a.started_at - (a.queue_ms + a.backoff_ms) * interval '1 ms') as n
          from (select distinct batch_id, idx from failed) s
          join attempt a on a.batch_id = s.batch_id and a.idx = s.idx
          where a.attempt > 1 and a.server_id is not null and a.outcome not in ('conn_race', 'recalled')) r
      on r.batch_id = f.batch_id and r.idx = f.idx and r.attempt = f.attempt + 1 and r.n = f.n
  )`

/**
 * The newest 5,000 failed attempts of the last 10 minutes, by server: the number that were retried, and the number
 * that were retried on the same server.
 */
export function retriesByServer(
  db: Database,
): Promise<{ server_id: number; retries: number; same: number }[]> {
  return db.rows(
    'retries-by-server',
    `${RETRIED}
     select server_id, count(*)::int as retries, (count(*) filter (where retried_on = server_id))::int as same
     from retried group by server_id`,
    ['10 minutes', 5_000],
  )
}

/**
 * Retries over the last hour, by the minute and cause of the failed attempt. The newest 300,000 failed attempts count,
 * which takes 3 s; page queries are cut off after 10 s.
 */
export async function retriesPerMinute(
  db: Database,
): Promise<{ minute: Date; reason: string; count: number }[]> {
  return db.rows(
    'retries-per-minute',
    `${RETRIED}
     select date_trunc('minute', started_at) as minute, reason, count(*)::int as count
     from retried group by 1, 2 order by 1`,
    ['1 hour', 300_000],
  )
}
