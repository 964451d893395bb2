import type { ExtraKeyDto } from '../../contract/sample-extras.ts'
import type { Client, Database } from '../database.ts'
import { args } from './args.ts'
import { isRescored } from './sample-filter.ts'

/** Maximum number of keys stored per batch, most frequent first. */
const MAX_KEYS = 200
/** Maximum number of distinct texts of a key for which each text is stored with its count. */
const MAX_VALUES = 12
/** Maximum number of batches, newest first, whose keys are added up. */
const MAX_BATCHES = 5_000
const MAX_LISTED = 200
/** Limits for batches without a roll-up: number of batches to read, newest first, and of samples from each. */
const MAX_SAMPLED = { batches: 4, samples: 256 }

export interface ExtraKeyRow extends Omit<ExtraKeyDto, 'values'> {
  /** Null if there are too many distinct texts, or no texts. */
  values: ExtraKeyDto['values'] | null
}

/** Keys, types and ranges of the rows `e(key, type, value)`. Numbers beyond the range of a double are clamped. */
const SUMMED = `select key, count(*)::int as samples,
    (count(*) filter (where type = 'number'))::int as numbers, (count(*) filter (where type = 'boolean'))::int as booleans,
    (count(*) filter (where type = 'string'))::int as texts, min(n) as min, max(n) as max
  from (select *, case when type <> 'number' then null when abs(value::numeric) < 1e-300 then 0
          else greatest(-1e308, least(1e308, value::numeric))::float8 end as n from e) t
  group by key order by 2 desc, 1 limit ${MAX_KEYS}`

const EACH = `cross join lateral json_each(
    case json_typeof(readable_json(s.reward_extra)) when 'object' then readable_json(s.reward_extra) end) x`
const ENTRY = `x.key, json_typeof(x.value) as type, x.value #>> '{}' as value`
const FIT = `x.key <> '' and length(x.key) <= 256 and json_typeof(x.value) <> 'null'`

/**
 * Stores the keys of an ended batch's extra infos, in the transaction of its other roll-ups: 40 ms for 8,192 samples of
 * three keys. The row of key `''` marks the list as complete. That row is missing if {@link MAX_KEYS} keys are stored,
 * because there may be more keys.
 */
export async function storeExtraKeys(client: Client, batchId: number): Promise<void> {
  await client.query('delete from batch_extra_key where batch_id = $1', [batchId])
  await client.query({
    name: 'store-extra-keys',
    text: `
      with e as materialized (
        select ${ENTRY} from sample s ${EACH} where s.batch_id = $1 and s.reward_extra is not null and ${FIT}
      ), summed as materialized (${SUMMED}), texts as materialized (
        select key, value, count(*)::int as n from e
        where type = 'string' and key in (select key from summed where texts > 0) group by 1, 2
      ), few as (
        select key, jsonb_agg(jsonb_build_object('text', value, 'samples', n) order by n desc, value) as values
        from texts group by key having count(*) <= ${MAX_VALUES} and max(length(value)) <= 80
      )
      insert into batch_extra_key (batch_id, key, samples, numbers, booleans, texts, min, max, values)
      select $1::int, key, samples, numbers, booleans, texts, min, max, few.values from summed left join few using (key)
      union all
      select $1::int, '', (select samples from batch where id = $1), 0, 0, 0, null, null, null
      where (select count(*) from summed) < ${MAX_KEYS}`,
    values: [batchId],
  })
}

/**
 * Keys of the extra info in the newest batches of a run or of a range of its steps, or in one batch. They come from the
 * batches' roll-ups and, for the newest batches without one, from some of their samples.
 */
export async function extraKeys(
  db: Database,
  of: {
    run?: string | undefined
    batchId?: number | undefined
    step?: number | undefined
    stepTo?: number | undefined
    split?: string | undefined
    rescored?: boolean | undefined
  },
): Promise<{ keys: ExtraKeyRow[]; batches: number; pending: number; capped: boolean }> {
  const { values, arg } = args()
  const where = ['samples > 0', 'samples_removed_at is null']
  if (of.batchId !== undefined) where.push(`id = ${arg(of.batchId)}`)
  if (of.run !== undefined) where.push(`run_id = (select id from run where name = ${arg(of.run)})`)
  if (of.step !== undefined)
    where.push(`step between ${arg(of.step)} and ${arg(of.stepTo ?? of.step)}`)
  if (of.split !== undefined) where.push(`split = ${arg(of.split)}`)
  if (of.rescored !== undefined) where.push(isRescored(of.rescored))
  const [row] = await db.adhoc<{
    batches: number
    pending: number
    capped: boolean
    newest: number[] | null
    keys: ExtraKeyRow[] | null
  }>(
    `with found as materialized (
       select id from batch where ${where.join(' and ')} order by id desc limit ${MAX_BATCHES + 1}
     ), b as materialized (select id from found order by id desc limit ${MAX_BATCHES}),
     k as materialized (select k.* from b join batch_extra_key k on k.batch_id = b.id),
     p as materialized (
       select id from b where not exists (select 1 from batch_extra_key k where k.batch_id = b.id) order by id desc),
     v as (
       select key, jsonb_agg(jsonb_build_object('text', text, 'samples', n) order by n desc, text) as values
       from (select key, x.value ->> 'text' as text, sum((x.value ->> 'samples')::int) as n
             from k cross join lateral jsonb_array_elements(k.values) x where k.values is not null group by 1, 2) t
       where key not in (select key from k where texts > 0 and values is null)
       group by key having count(*) <= ${MAX_VALUES}),
     s as (
       select key, sum(samples)::float8 as samples, sum(numbers)::float8 as numbers, sum(booleans)::float8 as booleans,
         sum(texts)::float8 as texts, min(min) as min, max(max) as max
       from k where key <> '' group by key order by 2 desc, 1 limit ${MAX_LISTED + 1})
     select (select count(*) from b)::int as batches, (select count(*) from p)::int as pending,
       (select count(*) > ${MAX_BATCHES} from found) as capped,
       (select array_agg(id) from (select id from p limit ${MAX_SAMPLED.batches}) t) as newest,
       (select json_agg(json_build_object('key', key, 'samples', samples, 'numbers', numbers, 'booleans', booleans,
          'texts', texts, 'min', min, 'max', max, 'values', v.values) order by samples desc, key)
        from s left join v using (key)) as keys`,
    values,
  )
  const { batches, pending, capped, newest, keys } = row!
  const known = keys ?? []
  if (newest !== null) {
    const seen = await db.adhoc<ExtraKeyRow>(
      `with e as materialized (
         select ${ENTRY} from unnest($1::int[]) as b(id) cross join lateral (
           select reward_extra from sample where batch_id = b.id and idx < ${MAX_SAMPLED.samples} and reward_extra is not null) s ${EACH}
         where ${FIT})
       select t.*, null as values from (${SUMMED}) t`,
      [newest],
    )
    const names = new Set(known.map(({ key }) => key))
    known.push(...seen.filter(({ key }) => !names.has(key)))
  }
  return {
    keys: known.slice(0, MAX_LISTED),
    batches,
    pending,
    capped: capped || known.length > MAX_LISTED,
  }
}
