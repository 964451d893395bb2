import type { GroupSignal, GroupSignalCounts } from '../../contract/group-signal.ts'
import type { GroupPasses } from '../../contract/prompts.ts'
import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { plainArray, textArray } from '../array-literal.ts'
import type { Database } from '../database.ts'

export interface RollUpCandidate {
  id: number
  /** True if the batch ended at least `dueAfterMs` ago. */
  due: boolean
  reward: ResolvedReward
  run_id: number
  step: number
  split: string
  is_rescore: boolean
}

export async function batchesWithoutGroupRollUp(
  db: Database,
  fromId: number,
  limit: number,
  dueAfterMs: number,
): Promise<RollUpCandidate[]> {
  return db.rows(
    'batches-without-group-roll-up',
    `select id, completed_at < clock_timestamp() - $3 * interval '1 millisecond' as due, reward,
       run_id, step, split, rescored_from is not null as is_rescore
     from batch where id >= $1 and completed_at is not null and not rolled_up order by id limit $2`,
    [fromId, limit, dueAfterMs],
  )
}

/**
 * The id of the first unfinished batch, or null if there is none, and whether any unfinished batch has samples to
 * score.
 */
export async function batchesUnderWay(
  db: Database,
): Promise<{ first: number | null; busy: boolean }> {
  const [row] = await db.rows<{ first: number | null; busy: boolean }>(
    'batches-under-way',
    `select min(id) as first, coalesce(bool_or(scored + failed < samples), false) as busy
     from batch where status in ('open', 'running') or (status in ('cancelled', 'failed') and completed_at is null)`,
  )
  return row!
}

/**
 * Returns the last group of the next page: the group after `afterNo` that brings the page to `samples` samples, or the
 * batch's last group if fewer samples are left. Returns null if no groups are left.
 */
export async function lastGroupOfPage(
  db: Database,
  batchId: number,
  afterNo: number,
  samples: number,
): Promise<number | null> {
  const [row] = await db.rows<{ no: number | null }>(
    'last-group-of-page',
    `select max(no) as no from (
       select no, coalesce(sum(received) over (order by no rows between unbounded preceding and 1 preceding), 0) as before
       from sample_group where batch_id = $1 and no > $2) t where before < $3`,
    [batchId, afterNo, samples],
  )
  return row!.no
}

/** The columns of samples that group statistics need, in order of the samples' indexes. */
export interface MemberColumns {
  group_no: number[]
  status: number[]
  score: (number | null)[]
  substituted: boolean[]
}

/**
 * The members of groups `from` to `to` (both included), read as one JSON text for the reason given at `sampleColumns`
 * in results.ts.
 */
export async function membersOfGroups(
  db: Database,
  batchId: number,
  from: number,
  to: number,
): Promise<MemberColumns> {
  const [row] = await db.rows<{ c: MemberColumns }>(
    'members-of-groups',
    `select json_build_object('group_no', coalesce(json_agg(group_no), '[]'), 'status', coalesce(json_agg(status), '[]'),
       'score', coalesce(json_agg(score), '[]'), 'substituted', coalesce(json_agg(substituted), '[]')) as c
     from (select s.group_no, s.status, s.score, s.substituted from sample s
           where batch_id = $1 and group_no between $2 and $3 order by batch_id, idx) s`,
    [batchId, from, to],
  )
  return row!.c
}

export interface GroupRollUp {
  no: number
  scored: number
  substituted: number
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  signal: GroupSignal
  advantages: (number | null)[]
}

/** Stores roll-ups of completed groups and returns the keys of their prompts in hexadecimal. Safe to repeat. */
export async function storeGroupRollUps(
  db: Database,
  batchId: number,
  groups: readonly GroupRollUp[],
): Promise<{ no: number; prompt: string | null }[]> {
  return db.rows(
    'store-group-roll-ups',
    `update sample_group g set scored = t.scored, substituted = t.substituted, mean = t.mean, std = t.std, min = t.min,
       max = t.max, signal = t.signal, advantages = t.advantages::float8[]
     from unnest($2::int[], $3::int[], $4::int[], $5::float8[], $6::float8[], $7::float8[], $8::float8[], $9::text[],
       $10::text[]) as t(no, scored, substituted, mean, std, min, max, signal, advantages)
     where g.batch_id = $1 and g.no = t.no and g.seq is not null
     returning g.no, encode(g.prompt_key, 'hex') as prompt`,
    [
      batchId,
      plainArray(groups.map((g) => g.no)),
      plainArray(groups.map((g) => g.scored)),
      plainArray(groups.map((g) => g.substituted)),
      plainArray(groups.map((g) => g.mean)),
      plainArray(groups.map((g) => g.std)),
      plainArray(groups.map((g) => g.min)),
      plainArray(groups.map((g) => g.max)),
      textArray(groups.map((g) => g.signal)),
      textArray(groups.map((g) => plainArray(g.advantages))),
    ],
  )
}

/**
 * Stores a batch's numbers of groups by class and by passed samples. This marks the roll-up of its groups as complete.
 */
export async function storeGroupCounts(
  db: Database,
  batchId: number,
  signals: GroupSignalCounts,
  passes: GroupPasses,
): Promise<void> {
  await db.rows(
    'store-group-counts',
    'update batch set group_signals = $2, group_passes = $3 where id = $1',
    [batchId, JSON.stringify(signals), JSON.stringify(passes)],
  )
}

/** A set of completed groups whose classification has the same inputs. */
export interface AlikeGroups {
  groups: number
  /** Number of members with a counted score: 0, 1, or 2 for two or more. */
  scored: number
  /** The counted score, or null if the scores differ or there is none. */
  score: number | null
  /** The lowest and the highest counted score, or null if there is none. */
  low: number | null
  high: number | null
}

export async function alikeGroups(db: Database, batchId: number): Promise<AlikeGroups[]> {
  return db.rows(
    'alike-groups',
    // A subquery looks up each group, because a join planned without table statistics scans all samples for each group.
    `select count(*)::int as groups, scored, case when min = max then min end as score,
            min(min) as low, max(max) as high
     from (select s.group_no, least(count(*) filter (where s.status = 2 and not s.substituted), 2)::int as scored,
                  min(s.score) filter (where s.status = 2 and not s.substituted) as min,
                  max(s.score) filter (where s.status = 2 and not s.substituted) as max
           from sample s where s.batch_id = $1 group by s.group_no) t
     where (select g.seq from sample_group g where g.batch_id = $1 and g.no = t.group_no) is not null
     group by 2, 3`,
    [batchId],
  )
}
