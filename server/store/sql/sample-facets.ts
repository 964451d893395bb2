import type { Database } from '../database.ts'
import { args } from './args.ts'
import { isRescored } from './sample-filter.ts'

const MAX_BATCHES = 5_000

export interface FacetRows {
  batches: number
  /** Number of batches without a roll-up. Only the counts by state include the samples of these batches. */
  pending: number
  capped: boolean
  scored: number
  failed: number
  waiting: number
  sources: { name: string; samples: number; failed: number }[] | null
  reasons: { reason: string; samples: number }[] | null
  verdicts: { verdict: string; samples: number }[] | null
}

/** Counts from the batches' counters and roll-ups, without reading samples. */
export async function sampleFacets(
  db: Database,
  filter: {
    run?: string | undefined
    batchId?: number | undefined
    step?: number | undefined
    split?: string | undefined
    rescored?: boolean | undefined
  },
): Promise<FacetRows> {
  const { values, arg } = args()
  const where = ['samples > 0', 'samples_removed_at is null']
  if (filter.batchId !== undefined) where.push(`id = ${arg(filter.batchId)}`)
  if (filter.run !== undefined)
    where.push(`run_id = (select id from run where name = ${arg(filter.run)})`)
  if (filter.step !== undefined) where.push(`step = ${arg(filter.step)}`)
  if (filter.split !== undefined) where.push(`split = ${arg(filter.split)}`)
  if (filter.rescored !== undefined) where.push(isRescored(filter.rescored))
  const [row] = await db.adhoc<FacetRows>(
    `with found as materialized (
       select id, samples, scored, failed, rolled_up from batch where ${where.join(' and ')}
       order by id desc limit ${MAX_BATCHES + 1}
     ), b as materialized (select * from found order by id desc limit ${MAX_BATCHES}),
     r as materialized (
       select r.data_source, r.samples, r.failed, r.reasons, r.verdicts from b join batch_roll_up r on r.batch_id = b.id where b.rolled_up)
     select count(*)::int as batches, (count(*) filter (where not rolled_up))::int as pending,
       (select count(*) > ${MAX_BATCHES} from found) as capped,
       coalesce(sum(scored), 0)::float8 as scored, coalesce(sum(failed), 0)::float8 as failed,
       coalesce(sum(samples - scored - failed), 0)::float8 as waiting,
       (select json_agg(s) from (
          select data_source as name, sum(samples)::float8 as samples, sum(failed)::float8 as failed
          from r where data_source <> '' group by 1 order by 2 desc, 1 limit 100) s) as sources,
       (select json_agg(f) from (
          select e.key as reason, sum(e.value::int)::float8 as samples
          from r, jsonb_each_text(r.reasons) e where r.data_source = '' group by 1 order by 2 desc, 1) f) as reasons,
       (select json_agg(v) from (
          select v.verdict, sum(v.n)::float8 as samples
          from r, jsonb_to_recordset(r.verdicts) as v(verdict text, n int)
          where r.data_source = '' and v.verdict is not null group by 1 order by 2 desc, 1 limit 50) v) as verdicts
     from b`,
    values,
  )
  return row!
}
