import type { Client, Database } from '../database.ts'

/** A job that a worker holds. */
export interface Claim {
  jobId: string
  queue: string
  workerId: number
  batchId: number
  firstIndex: number
  lastIndex: number
  samples: number
}

/** Notes that a worker holds a job, so that the job can be returned when the worker dies. */
export async function claimJob(db: Database, claim: Claim): Promise<void> {
  await db.rows(
    'claim',
    `insert into claim (job_id, queue, worker_id, batch_id, first_idx, last_idx, samples)
     values ($1, $2, $3, $4, $5, $6, $7)
     on conflict (job_id) do update set worker_id = excluded.worker_id, claimed_at = now()`,
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
}

/** Deletes a worker's claims of jobs that it has completed. */
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

/** Deletes the claim of a job that other jobs replace. */
export async function unclaimJob(client: Client, jobId: string): Promise<void> {
  await client.query('delete from claim where job_id = $1', [jobId])
}
