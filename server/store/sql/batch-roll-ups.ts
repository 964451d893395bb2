import { MAX_VERDICTS } from '../../contract/verdicts.ts'
import { notify } from '../channels.ts'
import type { Database } from '../database.ts'
import { componentStats } from './components.ts'
import { storeExtraKeys } from './extra-keys.ts'
import { deviationOf, meanOf, quantilesOf } from './moments.ts'
import { storeMonitorFigures } from './monitor-figures.ts'

/** Maximum number of data sources of a batch that get their own roll-up, largest first. */
const MAX_DATA_SOURCES = 64
/** Maximum number of distinct scores that are counted separately. More scores are counted in {@link BINS} bins. */
const MAX_VALUES = 64
/** Number of equal bins from the lowest score to the highest. */
export const BINS = 128

/**
 * Stores the roll-ups of an ended batch, one per data source and one for all (`''`), and marks the batch as rolled up.
 * Statistics cover scored samples without substituted scores. Takes 45 ms for 8,192 samples. Repeatable.
 * @param components keys of the extra info whose statistics per step are stored; `''` is the score itself
 */
export async function storeBatchRollUps(
  db: Database,
  batchId: number,
  components: readonly string[] = [],
): Promise<void> {
  const sums = components.length === 0 ? null : await componentStats(db, batchId, components)
  await db.transaction(async (client) => {
    // Serialized, because two servers, or a server and `npm run seed`, may process the same batch at the same time.
    await client.query('select from batch where id = $1 for no key update', [batchId])
    await client.query('delete from batch_roll_up where batch_id = $1', [batchId])
    await client.query({
      name: 'store-batch-roll-ups',
      text: `
        with s as materialized (
          select group_no, data_source, status, reason, verdict, substituted, queue_ms, score_ms,
                 case when status = 2 and not substituted then score end as score
          from sample where batch_id = $1
        ), largest as materialized (
          select data_source from s group by 1 order by count(*) desc, 1 limit ${MAX_DATA_SOURCES}
        ), e as materialized (
          select '' as ds, group_no, status, reason, verdict, substituted, queue_ms, score_ms, score from s
          union all
          select data_source, group_no, status, reason, verdict, substituted, queue_ms, score_ms, score from s
          where data_source in (select data_source from largest)
        ), statistics as (
          select ds, count(*)::int as samples, (count(*) filter (where status = 2))::int as scored,
                 (count(*) filter (where status = 3))::int as failed,
                 (count(*) filter (where substituted))::int as substituted,
                 ${meanOf('score')} as mean, ${deviationOf('score')} as std, min(score) as min, max(score) as max,
                 ${quantilesOf('score', [0.05, 0.25, 0.5, 0.75, 0.95])} as quantiles,
                 percentile_cont(array[0.5, 0.95]) within group (order by queue_ms::float8) as queue_ms,
                 percentile_cont(array[0.5, 0.95]) within group (order by score_ms::float8) as score_ms
          from e group by ds
        ), errors as (
          -- The samples of a group are not independent, so deviations are summed per group before they are squared.
          select ds, case when count(*) > 1 and max(abs(d)) < 1e140
                     then sqrt(count(*)::float8 / (count(*) - 1) * sum(d * d) filter (where abs(d) < 1e140)) / sum(n) end as mean_error
          from (select e.ds, group_no, count(*)::float8 as n, sum(score - mean) as d
                from e join statistics using (ds) where score is not null and mean is not null group by 1, 2) c
          group by ds
        ), counted as materialized (
          select ds, score, count(*)::int as n from e where score is not null group by 1, 2
        ), range as materialized (
          select ds, count(*) as different, min(score) as lo, max(score) as hi from counted group by 1
        ), few as (
          select ds, array_agg(c.score order by c.score) as bin_values, array_agg(c.n order by c.score) as bin_counts
          from counted c join range using (ds) where different <= ${MAX_VALUES} group by ds
        ), binned as materialized (
          select ds, least(${BINS}, width_bucket(c.score, lo, hi, ${BINS})) as bin, sum(n)::int as n
          from counted c join range using (ds) where different > ${MAX_VALUES} group by 1, 2
        ), many as (
          select r.ds, array_agg(coalesce(b.n, 0) order by g.bin) as bin_counts
          from range r cross join generate_series(1, ${BINS}) as g(bin)
          left join binned b on b.ds = r.ds and b.bin = g.bin
          where r.different > ${MAX_VALUES} group by r.ds
        ), reasons as (
          select ds, jsonb_object_agg(reason, n) as reasons
          from (select ds, reason, count(*) as n from e where status = 3 group by 1, 2) t group by ds
        ), verdicts as (
          select ds, jsonb_agg(jsonb_build_object('verdict', verdict, 'n', n, 'mean', mean) order by n desc, verdict) as verdicts
          from (
            -- Rare verdicts beyond the limit are counted together, without a name.
            select ds, case when at <= ${MAX_VERDICTS} then verdict end as verdict, sum(n)::int as n,
                   case when count(*) = 1 then min(mean) else sum(n * mean) / sum(n) end as mean
            from (
              select ds, verdict, count(*) as n, ${meanOf('score')} as mean,
                     row_number() over (partition by ds order by count(*) desc, verdict) as at
              from e where score is not null group by 1, 2
            ) c group by 1, 2
          ) t group by ds
        )
        insert into batch_roll_up (batch_id, data_source, samples, scored, failed, substituted, mean, std, min, max,
          quantiles, bin_values, bin_counts, queue_ms, score_ms, reasons, verdicts, mean_error)
        select $1, ds, samples, scored, failed, substituted, mean, std, min, max, coalesce(quantiles, '{}'),
          coalesce(few.bin_values, '{}'), coalesce(few.bin_counts, many.bin_counts, '{}'),
          coalesce(queue_ms, '{}')::real[], coalesce(score_ms, '{}')::real[], coalesce(reasons, '{}'),
          coalesce(verdicts, '[]'), mean_error
        from statistics left join few using (ds) left join many using (ds) left join reasons using (ds)
          left join verdicts using (ds) left join errors using (ds)
        where samples > 0`,
      values: [batchId],
    })
    if (sums !== null) {
      await client.query(
        "update batch_roll_up set components = $2 where batch_id = $1 and data_source = ''",
        [batchId, JSON.stringify(sums)],
      )
    }
    await storeMonitorFigures(client, batchId)
    await storeExtraKeys(client, batchId)
    // Statistics of the batch itself are usually stored already, soon after its end. They are not replaced, because
    // another order of the samples may change the last digit.
    await client.query(
      `update batch b set rolled_up = true, mean = coalesce(b.mean, r.mean), std = coalesce(b.std, r.std),
         min = coalesce(b.min, r.min), max = coalesce(b.max, r.max)
       from (select $1::int as id) i left join batch_roll_up r on r.batch_id = i.id and r.data_source = ''
       where b.id = i.id`,
      [batchId],
    )
    await notify(client, 'batchChanged', batchId)
  })
}
