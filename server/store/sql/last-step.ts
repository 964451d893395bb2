import type { Database } from '../database.ts'

/** The last step of a run, over all server processes. */
export interface LastStep {
  /** The highest step of the run's batches. */
  step: number
  /** Whether a sample of `samples.score` in this step is pending, or arrived or ended within the last `gapMs`. */
  isActive: boolean
}

/** Returns the last step of a run, or null if the run has no batches. */
export async function lastStep(db: Database, run: string, gapMs: number): Promise<LastStep | null> {
  const [row] = await db.rows<{ step: number | null; active: boolean }>(
    'last-step',
    `with r as (select id from run where name = $1),
       l as (select max(step) as step from batch where run_id = (select id from r)),
       g as (select clock_timestamp() - $2 * interval '1 millisecond' as since)
     select l.step, exists (
       select 1 from batch b
       where b.run_id = (select id from r) and b.step = l.step and b.implicit_key is not null
         and (b.last_append_at > g.since or (b.status in ('open', 'running') and b.scored + b.failed < b.samples)
           or exists (select 1 from sample s where s.batch_id = b.id and s.ended_at > g.since))
     ) as active
     from l, g`,
    [run, gapMs],
  )
  return row?.step == null ? null : { step: row.step, isActive: row.active }
}
