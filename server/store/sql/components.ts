import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import type { Database } from '../database.ts'
import { correlationOf, deviationOf, meanOf } from './moments.ts'

/** Maximum number of newest batches, of one run or of all runs together, that are searched for composite rewards. */
const MAX_SEARCHED = 2_000

export interface ComponentBatch {
  id: number
  step: number
  ended: boolean
  /** Statistics of the components from the batch's roll-up. Null if there is no roll-up, or if it has no components. */
  sums: ComponentStatsRow[] | null
  reward: Pick<ResolvedReward, 'components' | 'gdpo'>
}

export async function runsWithComponents(db: Database): Promise<string[]> {
  const rows = await db.rows<{ name: string }>(
    'runs-with-components',
    `select r.name from (select id, run_id, reward, rescored_from from batch order by id desc limit ${MAX_SEARCHED}) b
     join run r on r.id = b.run_id where b.rescored_from is null and (b.reward -> 'components' is not null or b.reward -> 'gdpo' is not null)
     group by r.name order by max(b.id) desc limit 50`,
  )
  return rows.map(({ name }) => name)
}

export async function componentBatches(
  db: Database,
  { run, from, until }: { run: string; from: number; until: number },
  limit: number,
): Promise<ComponentBatch[]> {
  return db.rows(
    'component-batches',
    `select id, step, completed_at is not null as ended,
       json_build_object('components', reward -> 'components', 'gdpo', reward -> 'gdpo') as reward,
       (select r.components from batch_roll_up r where b.rolled_up and r.batch_id = b.id and r.data_source = '') as sums
     from (select * from batch where run_id = (select id from run where name = $1) and step between $3 and $4
           order by id desc limit ${MAX_SEARCHED}) b
     where split = 'train' and rescored_from is null and status in ('open', 'running', 'completed')
       and (reward -> 'components' is not null or reward -> 'gdpo' is not null)
     order by id desc limit $2`,
    [run, limit, from, until],
  )
}

/** Statistics of one component over a batch's scored samples; `n` counts the samples that have the component. */
export interface ComponentStatsRow {
  name: string
  n: number
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  /** Correlation with the score; null if the component or the score does not vary; absent in older roll-ups. */
  corr?: number | null
}

/** SQL of the number at a key of a JSON object: a boolean is 0 or 1, and any other value null. */
export function numberAt(json: string, key: string): string {
  return `case json_typeof(${json} -> ${key}) when 'number' then (${json} ->> ${key})::float8
    when 'boolean' then (${json} ->> ${key})::boolean::int::float8 end`
}

/**
 * Statistics of the values at some keys of the extra info, over a batch's scored samples. Numbers are included, and
 * booleans as 0 and 1. The key `''` stands for the score. Extra infos with an escaped NUL or surrogate are skipped,
 * because Postgres may be unable to decode them.
 */
export async function componentStats(
  db: Database,
  batchId: number,
  names: readonly string[],
): Promise<ComponentStatsRow[]> {
  return db.rows(
    'component-stats',
    // `case` ensures that the escapes are checked first, because reading a key of undecodable JSON raises an error.
    `select p.name, count(x.v)::int as n, ${meanOf('x.v')} as mean, ${deviationOf('x.v')} as std, min(x.v) as min, max(x.v) as max,
       ${correlationOf('x.v', 'x.score')} as corr
     from unnest($2::text[]) as p(name) left join lateral (
       select case when p.name = '' then s.score when s.reward_extra::text ~ '\\\\u(0000|[dD][89a-fA-F])' then null
         else ${numberAt('s.reward_extra', 'p.name')} end as v, s.score
       from sample s where s.batch_id = $1 and s.status = 2 and not s.substituted) x on true
     group by p.name`,
    [batchId, [...names]],
  )
}
