import { MAX_LISTED_ANNOTATIONS } from '../../contract/annotations.ts'
import { notifySql } from '../channels.ts'
import type { Client, Database } from '../database.ts'
import type { SampleKey } from './sample-texts.ts'

const MAX_LABELS = 100

export interface AnnotationRow {
  id: string
  batch_id: number
  idx: number
  label: string
  note: string | null
  author: string
  created_at: Date
  updated_at: Date | null
}

const COLUMNS = 'id, batch_id, idx, label, note, author, created_at, updated_at'
const NOTIFY_BATCH = notifySql('batchChanged', 'batch_id')

export async function annotationsOf(
  db: Database,
  batchId: number,
  idx: number,
): Promise<AnnotationRow[]> {
  return db.rows(
    'annotations-of',
    `select * from (select ${COLUMNS} from sample_annotation where batch_id = $1 and idx = $2
                    order by id desc limit ${MAX_LISTED_ANNOTATIONS}) newest order by id`,
    [batchId, idx],
  )
}

/** The annotations of a batch's samples `fromIdx` to `toIdx` (included), in order of index, oldest first. */
export async function annotationsOfBatch(
  db: Database,
  batchId: number,
  fromIdx: number,
  toIdx: number,
): Promise<AnnotationRow[]> {
  return db.rows(
    'annotations-of-batch',
    `select ${COLUMNS} from sample_annotation where batch_id = $1 and idx between $2 and $3 order by idx, id`,
    [batchId, fromIdx, toIdx],
  )
}

export async function annotationById(db: Database, id: string): Promise<AnnotationRow | undefined> {
  const [row] = await db.rows<AnnotationRow>(
    'annotation-by-id',
    `select ${COLUMNS} from sample_annotation where id = $1`,
    [id],
  )
  return row
}

/**
 * Adds an annotation to the samples that exist and do not yet have the same label and note by this author, so a
 * repeated call adds nothing.
 * @returns the ids of the new annotations and the number of samples that exist
 */
export async function addAnnotations(
  db: Database,
  samples: readonly SampleKey[],
  annotation: { label: string; note: string | null; author: string },
): Promise<{ ids: string[]; existing: number }> {
  return db.transaction(async (client: Client) => {
    const keys = [samples.map((s) => s.batch_id), samples.map((s) => s.idx)]
    const { rows: existing } = await client.query<SampleKey>(
      `select p.batch_id, p.idx from unnest($1::int[], $2::int[]) with ordinality as p(batch_id, idx, place)
       cross join lateral (
         select 1 from sample where batch_id = p.batch_id and idx = p.idx offset 0) s order by p.place`,
      keys,
    )
    const { rows } = await client.query<{ id: string }>(
      `insert into sample_annotation (batch_id, idx, label, note, author)
       select p.batch_id, p.idx, $3, $4, $5 from unnest($1::int[], $2::int[]) with ordinality as p(batch_id, idx, place)
       where not exists (select 1 from sample_annotation a
         where a.batch_id = p.batch_id and a.idx = p.idx and a.label = $3 and a.author = $5 and a.note is not distinct from $4)
       order by p.place returning id`,
      [
        existing.map((s) => s.batch_id),
        existing.map((s) => s.idx),
        annotation.label,
        annotation.note,
        annotation.author,
      ],
    )
    await client.query(`select ${NOTIFY_BATCH} from unnest($1::int[]) batch_id`, [
      [...new Set(existing.map((s) => s.batch_id))].slice(0, 20),
    ])
    return { ids: rows.map(({ id }) => id), existing: existing.length }
  })
}

export async function updateAnnotation(
  db: Database,
  id: string,
  change: { label?: string | undefined; note?: string | null | undefined },
): Promise<AnnotationRow | undefined> {
  const [row] = await db.rows<AnnotationRow>(
    'update-annotation',
    `with changed as (
       update sample_annotation set label = coalesce($2, label), note = case when $4 then $3 else note end, updated_at = now()
       where id = $1 returning ${COLUMNS})
     select ${COLUMNS}, ${NOTIFY_BATCH} from changed`,
    [id, change.label ?? null, change.note ?? null, change.note !== undefined],
  )
  return row
}

export async function removeAnnotation(db: Database, id: string): Promise<void> {
  await db.rows(
    'remove-annotation',
    `with removed as (delete from sample_annotation where id = $1 returning batch_id)
     select ${NOTIFY_BATCH} from removed`,
    [id],
  )
}

export async function annotationLabels(
  db: Database,
  of: { run?: string | undefined; batchId?: number | undefined },
): Promise<{ label: string; samples: number }[]> {
  return db.rows(
    'annotation-labels',
    `select label, count(distinct (batch_id, idx))::int as samples from sample_annotation a
     where ($1::int is null or batch_id = $1)
       and ($2::text is null or exists (select 1 from batch b where b.id = a.batch_id and b.run_id = (select id from run where name = $2)))
     group by label order by 2 desc, 1 limit ${MAX_LABELS}`,
    [of.batchId ?? null, of.run ?? null],
  )
}
