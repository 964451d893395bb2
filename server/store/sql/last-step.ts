import type { Database } from '../database.ts'

export async function lastStep(db: Database, run: string): Promise<number | null> {
  const [row] = await db.rows<{ step: number | null }>(
    'last-step',
    'select max(step) as step from batch where run_id = (select id from run where name = $1)',
    [run],
  )
  return row?.step ?? null
}
