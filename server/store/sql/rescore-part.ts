import type { Client, Database } from '../database.ts'
import { columnNames, RESCORED_SAMPLE_COLUMNS, WRITTEN_TEXT_COLUMNS } from '../sample-columns.ts'
import type { CopiedSample, RolloutCopy } from './rescore.ts'

export interface PartToCopy {
  /** The samples' indexes in the original, ascending. The copy numbers the samples 0, 1, 2 … in this order. */
  idx: number[]
  /** The number of each sample's group in the copy. */
  groupNo: number[]
  /** For each group in the copy: its number in the original, and how many of its members are copied. */
  groups: { no: number; members: number }[]
}

/**
 * Returns samples of a batch with their groups, in order of index. `of` selects samples by their indexes, or by their
 * groups.
 */
export async function samplesOfBatch(
  db: Database,
  batchId: number,
  of: { indexes: readonly number[] } | { groups: readonly number[] },
): Promise<{ idx: number; group_no: number }[]> {
  return 'indexes' in of
    ? db.adhoc(
        `select s.idx, s.group_no from unnest($2::int[]) as p(idx) cross join lateral (
           select idx, group_no from sample where batch_id = $1 and idx = p.idx offset 0) s order by s.idx`,
        [batchId, of.indexes],
      )
    : db.adhoc(
        'select idx, group_no from sample where batch_id = $1 and group_no = any($2::int[]) order by idx',
        [batchId, of.groups],
      )
}

/** The data sources of some samples of a batch. */
export async function dataSourcesOfPart(
  db: Database,
  batchId: number,
  indexes: readonly number[],
): Promise<string[]> {
  const rows = await db.adhoc<{ data_source: string }>(
    `select distinct s.data_source from unnest($2::int[]) as p(idx) cross join lateral (
       select data_source from sample where batch_id = $1 and idx = p.idx offset 0) s order by 1`,
    [batchId, indexes],
  )
  return rows.map((row) => row.data_source)
}

/** The numbers of groups with these uids. */
export async function groupsByUid(
  db: Database,
  batchId: number,
  uids: readonly string[],
): Promise<number[]> {
  const rows = await db.adhoc<{ no: number }>(
    'select no from sample_group where batch_id = $1 and uid = any($2::text[])',
    [batchId, uids],
  )
  return rows.map(({ no }) => no)
}

/**
 * The sizes of a part's samples `from` to `to` (both included), in order. `idx` and `group_no` are those of the copy.
 */
export async function partToCopy(
  client: Client,
  copy: RolloutCopy,
  part: PartToCopy,
  from: number,
  to: number,
): Promise<CopiedSample[]> {
  const { rows } = await client.query<CopiedSample>(
    `select p.place as idx, p.group_no, octet_length(t.prompt) + octet_length(t.response) as work,
       octet_length(t.prompt) + octet_length(t.response) + coalesce(octet_length(t.ground_truth), 0)
         + coalesce(octet_length(t.extra_info), 0) as bytes
     ${PART} left join lateral (
       select * from sample_text where bucket = $5 and batch_id = $1 and idx = p.idx offset 0) t on true order by p.place`,
    [...partValues(copy, part, from, to), copy.fromBucket],
  )
  return rows
}

const PART = `from (select idx, group_no, $4::int + ord::int - 1 as place
  from unnest($2::int[], $3::int[]) with ordinality as u(idx, group_no, ord)) p
  cross join lateral (select * from sample where batch_id = $1 and idx = p.idx offset 0) s`

function partValues(copy: RolloutCopy, part: PartToCopy, from: number, to: number): unknown[] {
  return [copy.fromId, part.idx.slice(from, to + 1), part.groupNo.slice(from, to + 1), from]
}

export async function copyPartTexts(
  client: Client,
  copy: RolloutCopy,
  part: PartToCopy,
  from: number,
  to: number,
): Promise<void> {
  await client.query(
    `insert into sample_text (bucket, batch_id, idx, ${columnNames(WRITTEN_TEXT_COLUMNS)})
     select $6::date, $7::int, p.place, ${columnNames(WRITTEN_TEXT_COLUMNS, 't.')}
     ${PART} cross join lateral (
       select * from sample_text where bucket = $5 and batch_id = $1 and idx = p.idx offset 0) t`,
    [...partValues(copy, part, from, to), copy.fromBucket, copy.toBucket, copy.toId],
  )
}

/** Copies the part's samples `from` to `to` (included) without their results. */
export async function copyPartSamples(
  client: Client,
  copy: RolloutCopy,
  part: PartToCopy,
  from: number,
  to: number,
): Promise<void> {
  await client.query(
    `insert into sample (batch_id, idx, group_no, ${columnNames(RESCORED_SAMPLE_COLUMNS)})
     select $5::int, p.place, p.group_no, ${columnNames(RESCORED_SAMPLE_COLUMNS, 's.')} ${PART}`,
    [...partValues(copy, part, from, to), copy.toId],
  )
}

/** Copies the part's groups. In the copies, all members are pending. */
export async function copyPartGroups(
  client: Client,
  copy: RolloutCopy,
  part: PartToCopy,
): Promise<void> {
  await client.query(
    `insert into sample_group (batch_id, no, uid, received, prompt_key)
     select $4::int, ord::int - 1, g.uid, u.members, g.prompt_key
     from unnest($2::int[], $3::int[]) with ordinality as u(no, members, ord)
     cross join lateral (select uid, prompt_key from sample_group where batch_id = $1 and no = u.no offset 0) g`,
    [
      copy.fromId,
      part.groups.map(({ no }) => no),
      part.groups.map(({ members }) => members),
      copy.toId,
    ],
  )
}

/** Stores the origin of each copied sample, in the transaction that inserts the batch. */
export async function insertRescorePart(
  client: Client,
  copy: RolloutCopy,
  part: PartToCopy,
): Promise<void> {
  await client.query('insert into rescore_part (batch_id, from_idx) values ($1, $2::int[])', [
    copy.toId,
    part.idx,
  ])
}
