import { notify } from '../channels.ts'
import type { Database } from '../database.ts'

export interface RunMarkRow {
  id: number
  step: number
  label: string
  note: string
  author: string
  at: Date
}

export async function runMarks(db: Database, runId: number, limit: number): Promise<RunMarkRow[]> {
  return db.rows(
    'run-marks',
    `select id, step, label, note, author, at from run_mark where run_id = $1 order by step, id limit $2`,
    [runId, limit],
  )
}

/** Stores a mark. Returns undefined if the run already has `most` marks. */
export async function addMark(
  db: Database,
  runId: number,
  mark: { step: number; label: string; note: string; author: string },
  most: number,
): Promise<RunMarkRow | undefined> {
  const [row] = await db.rows<RunMarkRow>(
    'add-run-mark',
    `insert into run_mark (run_id, step, label, note, author)
     select $1, $2, $3, $4, $5 where (select count(*) from run_mark where run_id = $1) < $6
     returning id, step, label, note, author, at`,
    [runId, mark.step, mark.label, mark.note, mark.author, most],
  )
  if (row) await notify(db.pool, 'marksChanged')
  return row
}

export async function changeMark(
  db: Database,
  id: number,
  change: { step?: number | undefined; label?: string | undefined; note?: string | undefined },
): Promise<RunMarkRow | undefined> {
  const [row] = await db.rows<RunMarkRow>(
    'change-run-mark',
    `update run_mark set step = coalesce($2, step), label = coalesce($3, label), note = coalesce($4, note)
     where id = $1 returning id, step, label, note, author, at`,
    [id, change.step ?? null, change.label ?? null, change.note ?? null],
  )
  if (row) await notify(db.pool, 'marksChanged')
  return row
}

/** Returns false if the mark does not exist. */
export async function dropMark(db: Database, id: number): Promise<boolean> {
  const rows = await db.rows('drop-run-mark', 'delete from run_mark where id = $1 returning id', [
    id,
  ])
  if (rows.length > 0) await notify(db.pool, 'marksChanged')
  return rows.length > 0
}
