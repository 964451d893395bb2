import { plainArray } from '../array-literal.ts'
import type { Database, Statement } from '../database.ts'
import type { FlushedSample } from './flush.ts'
import { SLICE_SECONDS } from './server-reports.ts'

/** SQL condition of a failed attempt. Superseded and recalled calls, and connections closed on reuse, do not count. */
const IS_FAILED = `server_id is not null and outcome not in ('ok', 'superseded', 'conn_race', 'recalled')`

/**
 * SQL of the failed attempts that were retried. A retry is an attempt after the first of its call, as `attemptsIn` in
 * server/worker/sample-end.ts counts them. Attempts do not record which call they belong to, and a sample may have
 * several concurrent calls (votes of a judge, components). The failures of one attempt number are therefore paired in
 * order with the attempts of the next number, so each failure has at most one retry. Hedges, connections that were
 * closed on reuse and recalled calls are neither failures nor retries.
 * @param failed the query of the failed attempts
 */
const retriedOf = (failed: string) => `
  failed as materialized (${failed}), retried as (
    select f.server_id, f.ended_at, f.outcome, r.server_id as retried_on
    from (select *, row_number() over (partition by batch_id, idx, attempt order by ended_at) as n
          from (select *, started_at + service_ms * interval '1 ms' as ended_at from failed) e) f
    join (select a.batch_id, a.idx, a.attempt, a.server_id,
                 row_number() over (partition by a.batch_id, a.idx, a.attempt
                                    order by a.started_at - (a.queue_ms + a.backoff_ms) * interval '1 ms') as n
          from (select distinct batch_id, idx from failed) s
          join attempt a on a.batch_id = s.batch_id and a.idx = s.idx
          where a.attempt > 1 and a.server_id is not null and a.hedge_of is null
            and a.outcome not in ('conn_race', 'recalled')) r
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
    `with ${retriedOf(`select * from attempt where started_at > now() - interval '10 minutes' and ${IS_FAILED}
       order by started_at desc limit 5000`)}
     select server_id, count(*)::int as retries, (count(*) filter (where retried_on = server_id))::int as same
     from retried group by server_id`,
  )
}

/** The cause under which `retry_slice` counts hedges. */
export const HEDGE = 'hedge'

/**
 * Returns the statement that counts the retries and hedges among the attempts that this transaction has stored. A retry
 * counts at the time when the retried attempt failed, a hedge at the time when it was sent. The statement must be the
 * last one of the transaction: all workers add to the same rows, which are then locked only during the commit.
 */
export function retriesStatement(
  samples: readonly Pick<FlushedSample, 'batchId' | 'index' | 'attemptLog'>[],
): Statement {
  const logged = samples.filter(({ attemptLog }) => attemptLog !== null)
  return {
    name: 'add-retries',
    text: `with stored as materialized (
             select a.* from unnest($1::int[], $2::int[]) as s(batch_id, idx)
             join attempt a on a.batch_id = s.batch_id and a.idx = s.idx
             where a.xmin = pg_current_xact_id()::xid),
           ${retriedOf(`select * from stored where ${IS_FAILED}`)},
           counted as (
             select server_id, outcome as cause, ended_at as at from retried
             union all select hedge_of, '${HEDGE}', started_at from stored where hedge_of is not null)
           insert into retry_slice as m (seconds, at, server_id, cause, n)
           select seconds, date_bin(seconds * interval '1 second', at, 'epoch'), server_id, cause, count(*)
           from counted, unnest($3::smallint[]) as s(seconds) group by 1, 2, 3, 4 order by 1, 2, 3, 4
           on conflict (seconds, at, server_id, cause) do update set n = m.n + excluded.n`,
    values: [
      plainArray(logged.map(({ batchId }) => batchId)),
      plainArray(logged.map(({ index }) => index)),
      SLICE_SECONDS,
    ],
  }
}
