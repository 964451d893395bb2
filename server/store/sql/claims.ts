import type { Client, Database } from '../database.ts'

export interface Claim {
  jobId: string
  queue: string
  workerId: number
  batchId: number
  firstIndex: number
  lastIndex: number
  samples: number
}

/**
 * Records that a worker holds a job, so that the job can be requeued when the worker dies. Returns false for a worker
 * that was declared dead: the job may have been requeued already, and the claim would take the job from the worker that
 * now holds it.
 */
export async function claimJob(db: Database, claim: Claim): Promise<boolean> {
  const claimed = await db.rows(
    'claim',
    `insert into claim (job_id, queue, worker_id, batch_id, first_idx, last_idx, samples)
     select $1, $2, $3, $4, $5, $6, $7
     where not exists (select from process where id = $3 and state = 'dead')
     on conflict (job_id) do update set worker_id = excluded.worker_id, claimed_at = now()
     returning job_id`,
    [
      claim.jobId,
      claim.queue,
      claim.workerId,
      claim.batchId,
      claim.firstIndex,
      claim.lastIndex,
      claim.samples,
    ],
  )
  return claimed.length > 0
}

export async function unclaimJobs(
  db: Database,
  jobIds: readonly string[],
  workerId: number,
): Promise<void> {
  await db.rows('unclaim', 'delete from claim where job_id = any($1::uuid[]) and worker_id = $2', [
    jobIds,
    workerId,
  ])
}

/** Deletes the claim of a job that was replaced by other jobs. */
export async function unclaimJob(client: Client, jobId: string): Promise<void> {
  await client.query('delete from claim where job_id = $1', [jobId])
}

export async function takeClaims(
  db: Database,
  workerIds: readonly number[],
): Promise<{ job_id: string; queue: string; worker_id: number; samples: number }[]> {
  return db.adhoc(
    'delete from claim where worker_id = any($1::int[]) returning job_id, queue, worker_id, samples',
    [workerIds],
  )
}

/** Jobs that have been active for at least `forMs` without a worker's claim. */
export async function unclaimedJobs(
  db: Database,
  forMs: number,
): Promise<{ id: string; name: string }[]> {
  return db.adhoc(
    `select id, name from pgboss.job where state = 'active'
       and started_on < clock_timestamp() - $1 * interval '1 millisecond'
       and not exists (select from claim where job_id = job.id)`,
    [forMs],
  )
}
