import { GROUP_SIGNALS, type GroupSignalCounts } from '../../contract/group-signal.ts'
import type { BatchStatus } from '../../contract/trainer.ts'
import type { Database } from '../database.ts'
import { LARGEST_OF_TWO } from './moments.ts'
import { MAX_SOURCES, type StepsOfRun } from './run-view.ts'

/** Steps of a run, grouped by `step / width`. */
export interface BinnedSteps extends StepsOfRun {
  width: number
}

/**
 * A bin of consecutive steps. Of each step, only the last batch counts. Counts are sums; statistics cover rolled-up
 * steps.
 */
export interface RunBinRow {
  /** The first and the last step with a batch, and the number of such steps. */
  step: number
  last: number
  steps: number
  id: number
  status: BatchStatus
  pending: number
  others: number
  samples: number
  scored: number
  failed: number
  substituted: number
  groups: number
  retries: number
  submitted_at: Date
  n: number | null
  /** Means, quantiles and the standard error are weighted by samples. */
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  quantiles: (number | null)[]
  mean_error: number | null
  /** `[lowest, highest]` over the bin's steps, for the mean, the reward wait and the share of failed samples. */
  means: (number | null)[]
  waits_ms: (number | null)[]
  failed_shares: (number | null)[]
  /** Medians over the steps. */
  wait_ms: number | null
  step_ms: number | null
  queue_ms_p50: number | null
  score_ms_p50: number | null
  score_ms_p95: number | null
  group_signals: GroupSignalCounts | null
  reasons: Record<string, number> | null
  verdicts: { verdict: string | null; n: number }[] | null
}

/** SQL of each step's last batch; parameters 1 to 5 are a {@link BinnedSteps}. */
const LAST = `last as materialized (
  select step, max(id) as id, count(*)::int - 1 as others from batch
  where run_id = $1 and split = $2 and rescored_from is null and step between $3 and $4 group by step)`

const parameters = ({ runId, split, first, last, width }: BinnedSteps) => [
  ...[runId, split, first, last, width],
]

const weighted = (value: string) =>
  `sum(${value} * n) filter (where ${value} is not null) / nullif(sum(n) filter (where ${value} is not null), 0)`
/**
 * SQL of the standard deviation of all samples of a bin, from `n`, `mean` and `std` of each step and from `bin_n` and
 * `bin_mean`.
 */
const STD = `case when bool_and(std is not null or n < 2) then
  sqrt(sum((greatest(n - 1, 0) * coalesce(std, 0) ^ 2 + n * (mean - bin_mean) ^ 2) / nullif(bin_n - 1, 0))) end`
const STEP_ERROR = `case when r.mean_error < ${LARGEST_OF_TWO} then r.mean_error end`
/** SQL of the standard error of a bin's mean; null if the standard error of a step is unknown. */
const MEAN_ERROR = `case when bool_and(mean_error is not null) filter (where n > 0)
  then sqrt(sum((n / nullif(bin_n, 0) * mean_error) ^ 2)) end`
const median = (value: string, where = 'true') =>
  `percentile_cont(0.5) within group (order by ${value}) filter (where ${where})`

export async function runBins(db: Database, steps: BinnedSteps): Promise<RunBinRow[]> {
  return db.rows(
    'run-bins',
    `with ${LAST},
     s as materialized (
       select b.step / $5 as bin, b.step, b.id, b.status, last.others, b.samples, b.scored, b.failed, b.groups, b.retries,
         b.submitted_at, b.completed_at is not null and not b.rolled_up as pending, b.rolled_up, b.group_signals,
         extract(epoch from b.completed_at - b.submitted_at)::float8 * 1000 as wait_ms,
         extract(epoch from lead(b.submitted_at) over (order by b.step) - b.submitted_at)::float8 * 1000 as step_ms,
         b.failed::float8 / nullif(b.scored + b.failed, 0) as failed_share,
         case when abs(r.mean) < ${LARGEST_OF_TWO} then r.mean end as mean,
         case when r.std < ${LARGEST_OF_TWO} then r.std end as std, r.min, r.max,
         r.substituted, (select sum(c) from unnest(r.bin_counts) c)::float8 as n,
         case when greatest(-r.quantiles[1], r.quantiles[5]) < ${LARGEST_OF_TWO} then r.quantiles end as q,
         r.queue_ms, r.score_ms, r.reasons, r.verdicts,
         ${STEP_ERROR} as mean_error
       from last join batch b on b.id = last.id
       left join batch_roll_up r on r.batch_id = b.id and r.data_source = '' and b.rolled_up),
     centered as (
       select *, sum(n) over bin as bin_n, sum(n * mean) over bin / nullif(sum(n) over bin, 0) as bin_mean
       from s window bin as (partition by bin)),
     reason as (
       select bin, jsonb_object_agg(reason, n) as reasons from (
         select bin, reason, sum(value::int) as n from s, jsonb_each_text(reasons) as of(reason, value) group by 1, 2) x
       group by bin),
     verdict as (
       select bin, jsonb_agg(jsonb_build_object('verdict', verdict, 'n', n) order by n desc, verdict) as verdicts from (
         select bin, v ->> 'verdict' as verdict, sum((v ->> 'n')::int) as n
         from s, jsonb_array_elements(verdicts) as v group by 1, 2) x
       group by bin),
     figures as (
       select bin, min(step) as step, max(step) as last, count(*)::int as steps,
         (array_agg(id order by step desc))[1] as id, (array_agg(status order by step desc))[1] as status,
         (count(*) filter (where pending))::int as pending, sum(others)::int as others, sum(samples)::float8 as samples,
         sum(scored)::float8 as scored, sum(failed)::float8 as failed, coalesce(sum(substituted), 0)::float8 as substituted,
         sum(groups)::float8 as groups, sum(retries)::float8 as retries, min(submitted_at) as submitted_at,
         case when bool_or(rolled_up) then coalesce(sum(n), 0) end as n, max(bin_mean) as mean,
         ${STD} as std, min(min) as min, max(max) as max,
         array[${[1, 2, 3, 4, 5].map((at) => weighted(`q[${at}]`)).join(', ')}] as quantiles,
         ${MEAN_ERROR} as mean_error,
         array[min(mean), max(mean)] as means, array[min(wait_ms), max(wait_ms)] as waits_ms,
         array[min(failed_share), max(failed_share)] as failed_shares,
         ${median('wait_ms')} as wait_ms, ${median('step_ms', 'step_ms > 0')} as step_ms,
         ${median('queue_ms[1]')} as queue_ms_p50, ${median('score_ms[1]')} as score_ms_p50,
         ${median('score_ms[2]')} as score_ms_p95,
         case when count(group_signals) > 0 then json_build_object(${GROUP_SIGNALS.map(
           (signal) =>
             `'${signal}', coalesce(sum((group_signals ->> '${signal}')::int), 0)::float8`,
         ).join(', ')}) end as group_signals
       from centered group by bin)
     select figures.*, reasons, verdicts from figures left join reason using (bin) left join verdict using (bin) order by bin`,
    parameters(steps),
  )
}

/** A bin's figures for one data source. The mean and the quantiles are weighted by samples. */
export interface SourceBinRow {
  bin: number
  data_source: string
  samples: number
  failed: number
  n: number
  mean: number
  std: number | null
  mean_error: number | null
  q25: number
  q75: number
}

export async function sourceBins(db: Database, steps: BinnedSteps): Promise<SourceBinRow[]> {
  return db.rows(
    'source-bins',
    `with ${LAST},
     r as materialized (
       select last.step / $5 as bin, r.data_source, r.samples, r.failed, r.mean, r.quantiles as q,
         case when r.std < ${LARGEST_OF_TWO} then r.std end as std, ${STEP_ERROR} as mean_error,
         (select sum(c) from unnest(r.bin_counts) c)::float8 as n
       from last join batch_roll_up r on r.batch_id = last.id
       where r.data_source <> '' and abs(r.mean) < ${LARGEST_OF_TWO}
         and greatest(-r.quantiles[1], r.quantiles[5]) < ${LARGEST_OF_TWO}),
     largest as (select data_source from r group by 1 order by sum(samples) desc, 1 limit ${MAX_SOURCES}),
     centered as (
       select *, sum(n) over bin as bin_n, sum(n * mean) over bin / nullif(sum(n) over bin, 0) as bin_mean
       from r where data_source in (select data_source from largest) window bin as (partition by bin, data_source))
     select bin, data_source, sum(samples)::float8 as samples, sum(failed)::float8 as failed, sum(n) as n,
       max(bin_mean) as mean, ${STD} as std, ${MEAN_ERROR} as mean_error, ${weighted('q[2]')} as q25, ${weighted('q[4]')} as q75
     from centered group by 1, 2 order by 1, 2`,
    parameters(steps),
  )
}

export interface ScoreScaleRow {
  low: number | null
  high: number | null
  values: number[] | null
}

/**
 * The range of the scores in these steps, and the distinct scores (`values`). `values` is null if there are more than
 * `most` of them.
 */
export async function scoreScale(
  db: Database,
  steps: BinnedSteps,
  most: number,
): Promise<ScoreScaleRow> {
  const [row] = await db.rows<ScoreScaleRow>(
    'score-scale',
    `with ${LAST},
     s as materialized (select min, max, bin_values from last, batch_roll_up r where ${HAS_SCORES}),
     value as (
       select v from s, unnest(bin_values) v
       where (select bool_and(cardinality(bin_values) > 0) from s) group by v order by v limit $6 + 1)
     select min(min) as low, max(max) as high,
       (select case when count(*) between 1 and $6 then array_agg(v order by v) end from value) as values
     from s where $5 > 0`,
    [...parameters(steps), most],
  )
  return row!
}

/** SQL condition: the roll-up has scores, and all are in a range that can be drawn. */
const HAS_SCORES = `r.batch_id = last.id and r.data_source = '' and cardinality(r.bin_counts) > 0
  and greatest(-r.min, r.max) < ${LARGEST_OF_TWO}`

/** A bin's numbers of samples in the rows of a heat map, which are numbered from 0. */
export interface HeatBinRow {
  bin: number
  rows: number[]
  counts: number[]
}

/**
 * Counts the samples of each bin of steps by distinct score, or by `count` equal score ranges from `low` to `high`. A
 * bin of a roll-up's histogram counts toward the range that contains its midpoint.
 */
export async function heatBins(
  db: Database,
  steps: BinnedSteps,
  rows: { values: number[] } | { low: number; high: number; count: number },
): Promise<HeatBinRow[]> {
  const isListed = 'values' in rows
  // One integer per cell is grouped by hashing; two columns would be sorted on disk, which takes twice as long.
  return db.rows(
    isListed ? 'heat-bins-of-values' : 'heat-bins',
    `with ${LAST},
     s as materialized (
       select step / $5 as bin, bin_values, bin_counts, min, (max - min) / cardinality(bin_counts) as width
       from last, batch_roll_up r where ${HAS_SCORES}),
     cell as (
       select (bin - $3 / $5) * $6 + ${
         isListed
           ? 'array_position($7::float8[], bin_values[i]) - 1'
           : 'least($6 - 1, greatest(0, floor((coalesce(bin_values[i], min + (i - 0.5::float8) * width) - $7) / $8::float8)))::int'
       } as at, sum(c)::float8 as n
       from s, unnest(bin_counts) with ordinality u(c, i) where c > 0 group by 1)
     select at / $6 + $3 / $5 as bin, array_agg(at % $6 order by at) as rows, array_agg(n order by at) as counts
     from cell group by 1 order by 1`,
    [
      ...parameters(steps),
      ...(isListed
        ? [rows.values.length, rows.values]
        : [rows.count, rows.low, (rows.high - rows.low) / rows.count]),
    ],
  )
}
