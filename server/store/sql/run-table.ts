import type { ConfigValue } from '../../contract/run-config.ts'
import {
  type ConfigFilter,
  type RunSort,
  type RunStatus,
  type RunTableInput,
  STALLED_AFTER_MS,
} from '../../contract/run-table.ts'
import { textArray } from '../array-literal.ts'
import type { Database } from '../database.ts'
import { type Arg, args } from './args.ts'

const MAX_FACET_RUNS = 2_000
const MAX_TAGS_LISTED = 500
const MAX_KEYS_LISTED = 500

/**
 * The batches that no roll-up includes, by run: unfinished ones, and those that ended within the last few seconds.
 * `progress_at`: when samples last arrived or a group last completed. Groups are only read for batches that may be
 * stalled.
 */
const TAIL = `tail as materialized (
  select run_id, max(id) as last_id, max(submitted_at) filter (where rescored_from is null) as last_at,
    coalesce(max(step) filter (where split = 'train' and rescored_from is null), max(step) filter (where rescored_from is null),
      max(step)) as last_step,
    (count(*) filter (where split = 'train' and rescored_from is null))::int as batches,
    (count(*) filter (where split = 'val' and rescored_from is null))::int as validation_batches,
    (count(*) filter (where rescored_from is not null))::int as rescored_batches,
    coalesce(sum(samples - scored - failed) filter (where status in ('open', 'running')), 0)::float8 as pending,
    max(completed_at) filter (where rescored_from is null) as ended_at,
    max(case when status in ('open', 'running') and samples > scored + failed then greatest(last_append_at, started_at,
      case when greatest(last_append_at, started_at) < now() - ${STALLED_AFTER_MS} * interval '1 millisecond'
        then (select max(g.completed_at) from sample_group g where g.batch_id = batch.id) end) end) as progress_at
  from batch where not in_run_roll_up group by run_id)`

const STATUS = `case when coalesce(t.pending, 0) = 0 then 'idle'
  when t.progress_at < now() - ${STALLED_AFTER_MS} * interval '1 millisecond' then 'stalled' else 'scoring' end`

const NUMBERS: Record<Exclude<RunSort, 'name' | 'reward'>, string> = {
  activity: 'extract(epoch from coalesce(greatest(r.last_at, t.last_at), run.created_at))::float8',
  created: 'extract(epoch from run.created_at)::float8',
  mean: 'r.mean',
  best: 'r.best_mean',
  change: 'r.change',
  step: 'greatest(r.last_step, t.last_step)::float8',
  samples: 'r.samples',
  noSignal: 'r.no_signal / nullif(r.groups, 0)::float8',
  failed: 'r.failed / nullif(r.samples, 0)',
}
const TEXTS: Partial<Record<RunSort, string>> = { name: 'lower(run.name)', reward: 'r.reward_name' }

/** Keyset cursor: the position of a row in the sorted table, by its tag, its number `n` or text `t`, and its id. */
export interface RunPlace {
  tag: string | null
  n: number | null
  t: string | null
  id: number
}

export interface RunTableRow extends RunPlace {
  name: string
  seeded: boolean
  created_at: Date
  tags: string[]
  status: RunStatus
  since: Date | null
  pending: number
  split: 'train' | 'val' | null
  last_step: number | null
  last_at: Date | null
  batches: number
  validation_batches: number
  rescored_batches: number
  samples: number
  failed: number
  groups: number
  no_signal: number
  mean: number | null
  best_mean: number | null
  best_step: number | null
  change: number | null
  change_error: number | null
  change_steps: number
  curve_steps: number[] | null
  curve_means: number[] | null
  reward_name: string | null
  reward_hash: string | null
  config: Record<string, ConfigValue> | null
  total: number
  tag_runs: number
  runs: number
}

/** Returns a page of the run table, with one row more than the limit if there are more rows. */
export async function runTable(
  db: Database,
  input: RunTableInput,
  place: RunPlace | null,
): Promise<RunTableRow[]> {
  const { values, arg } = args()
  const where: string[] = ['true']
  if (input.search) where.push(`position(lower(${arg(input.search)}::text) in lower(run.name)) > 0`)
  if (input.tags.length > 0) where.push(`run.tags @> ${arg(textArray(input.tags))}::text[]`)
  if (input.status !== undefined) where.push(`${STATUS} = ${arg(input.status)}`)
  for (const condition of input.config) where.push(configCondition(condition, arg))
  const key =
    input.sortConfig === undefined ? null : `config_values -> ${arg(input.sortConfig)}::text`
  const number =
    key === null
      ? (NUMBERS[input.sort as keyof typeof NUMBERS] ?? 'null::float8')
      : `case jsonb_typeof(${key}) when 'number' then (${key})::float8 end`
  const text =
    key === null
      ? (TEXTS[input.sort] ?? 'null::text')
      : `case when jsonb_typeof(${key}) not in ('number', 'null') then ${key} #>> '{}' end`
  const up = input.order === 'asc'
  // Numbers come before texts, and runs without a value come last, in both directions.
  const kind = `case when n is not null then 0 when t is not null then 1 else 2 end`
  const order = up ? 'asc' : 'desc'
  const after = place === null ? 'true' : afterPlace(place, kind, up, arg)
  const columns = arg(textArray(input.columns))
  const limit = arg(input.limit + 1)
  return db.adhoc(
    `with ${TAIL}, matching as materialized (
       select run.id, run.name, run.seeded, run.created_at, coalesce(run.tags, '{}') as tags, ${STATUS} as status,
         (${number})::float8 as n, (${text})::text collate "C" as t
       from run left join run_roll_up r on r.run_id = run.id left join tail t on t.run_id = run.id
       where ${where.join(' and ')}
     ), listed as materialized (
       select m.*, ${input.byTag ? 'u.tag' : 'null::text'} as tag, ${input.byTag ? '(count(*) over (partition by u.tag))::int' : '0'} as tag_runs
       from matching m ${input.byTag ? 'left join lateral unnest(tags) as u(tag) on true' : ''}
     ), page as materialized (
       select * from listed where ${after}
       order by (tag is null), tag collate "C", ${kind}, n ${order}, t ${order}, id ${order} limit ${limit}
     )
     select p.id, p.name, p.seeded, p.created_at, p.tags, p.status, p.tag, p.n, p.t, p.tag_runs,
       case p.status when 'idle' then greatest(r.ended_at, t.ended_at) else t.progress_at end as since,
       coalesce(t.pending, 0) as pending, r.split, greatest(r.last_step, t.last_step) as last_step,
       greatest(r.last_at, t.last_at) as last_at,
       coalesce(r.batches, 0) + coalesce(t.batches, 0) as batches,
       coalesce(r.validation_batches, 0) + coalesce(t.validation_batches, 0) as validation_batches,
       coalesce(r.rescored_batches, 0) + coalesce(t.rescored_batches, 0) as rescored_batches,
       coalesce(r.samples, 0) as samples, coalesce(r.failed, 0) as failed, coalesce(r.groups, 0) as groups,
       coalesce(r.no_signal, 0) as no_signal, r.mean, r.best_mean, r.best_step, r.change, r.change_error,
       coalesce(r.change_steps, 0) as change_steps, r.curve_steps, r.curve_means, r.reward_name, r.reward_hash,
       (select jsonb_object_agg(k, run.config_values -> k) from unnest(${columns}::text[]) k where run.config_values ? k) as config,
       (select count(*)::int from matching) as total, (select count(*)::int from run) as runs
     from page p join run on run.id = p.id left join run_roll_up r on r.run_id = p.id left join tail t on t.run_id = p.id
     order by (p.tag is null), p.tag collate "C", ${kind.replaceAll(/\b([nt]) is/g, 'p.$1 is')}, p.n ${order}, p.t ${order}, p.id ${order}`,
    values,
  )
}

function afterPlace(place: RunPlace, kind: string, up: boolean, arg: Arg): string {
  const placeKind = place.n !== null ? 0 : place.t !== null ? 1 : 2
  const section = `(tag is null, coalesce(tag, '') collate "C", ${kind})`
  const placed = `(${arg(place.tag === null)}::boolean, ${arg(place.tag ?? '')}::text, ${placeKind})`
  const row = `(coalesce(n, 0), coalesce(t, ''), id)`
  const placedRow = `(${arg(place.n ?? 0)}::float8, ${arg(place.t ?? '')}::text, ${arg(place.id)}::int)`
  return `(${section} > ${placed} or (${section} = ${placed} and ${row} ${up ? '>' : '<'} ${placedRow}))`
}

function configCondition({ key, is, value }: ConfigFilter, arg: Arg): string {
  const number = value.trim() === '' ? Number.NaN : Number(value)
  const needsNumber = is !== '~' && is !== '=' && is !== '!='
  if (needsNumber && !Number.isFinite(number)) return 'false'
  const found = `run.config_values -> ${arg(key)}::text`
  const text = `(${found}) #>> '{}'`
  if (is === '~')
    return `coalesce(position(lower(${arg(value)}::text) in lower(${text})) > 0, false)`
  const isNumber = `jsonb_typeof(${found}) = 'number'`
  if (is === '=' || is === '!=') {
    const asText = `coalesce(${text}, 'null') = ${arg(value)}::text and (${found}) is not null`
    const equal = Number.isFinite(number)
      ? `case when ${isNumber} then (${found})::float8 = ${arg(number)}::float8 else ${asText} end`
      : asText
    return is === '=' ? `coalesce(${equal}, false)` : `not coalesce(${equal}, false)`
  }
  return `case when ${isNumber} then (${found})::float8 ${is} ${arg(number)}::float8 else false end`
}

export async function runFacets(db: Database): Promise<{
  tags: { tag: string; runs: number }[]
  keys: { key: string; runs: number; values: number }[]
}> {
  const [row] = await db.rows<{
    tags: { tag: string; runs: number }[]
    keys: { key: string; runs: number; values: number }[]
  }>(
    'run-facets',
    `with newest as materialized (select id, tags, config_values from run order by id desc limit ${MAX_FACET_RUNS}),
     tag as (select tag, count(*)::int as runs from newest, unnest(tags) as u(tag) group by 1 order by 2 desc, 1 limit ${MAX_TAGS_LISTED}),
     key as (select key, count(*)::int as runs, count(distinct value)::int as values
             from newest, jsonb_each_text(config_values) group by 1 order by 3 desc, 2 desc, 1 limit ${MAX_KEYS_LISTED})
     select coalesce((select json_agg(c) from tag c), '[]') as tags, coalesce((select json_agg(c) from key c), '[]') as keys`,
  )
  return row!
}

export interface RunListRow {
  name: string
  batches: number
  validation_batches: number
  rescored_batches: number
  last_step: number
  last_at: Date
  seeded: boolean
}

export async function runRows(db: Database, limit: number): Promise<RunListRow[]> {
  return db.rows(
    'runs',
    `with ${TAIL}
     select run.name, coalesce(r.batches, 0) + coalesce(t.batches, 0) as batches,
       coalesce(r.validation_batches, 0) + coalesce(t.validation_batches, 0) as validation_batches,
       coalesce(r.rescored_batches, 0) + coalesce(t.rescored_batches, 0) as rescored_batches,
       greatest(r.last_step, t.last_step) as last_step, greatest(r.last_at, t.last_at) as last_at, run.seeded
     from run left join run_roll_up r on r.run_id = run.id left join tail t on t.run_id = run.id
     where r.run_id is not null or t.run_id is not null
     order by greatest(r.last_batch_id, t.last_id) desc limit $1`,
    [limit],
  )
}
