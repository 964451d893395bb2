import type { Database } from '../database.ts'

export interface OtherHolder {
  slots: number
  demand: number
}

export interface LeaseRequest {
  resource: string
  holderId: number
  demand: number
  inFlight: number
  limit: number
  ttlMs: number
  graceMs: number
}

export async function renewLease(
  db: Database,
  { resource, holderId, demand, inFlight, limit, ttlMs, graceMs }: LeaseRequest,
): Promise<{ slots: number; others: OtherHolder[] }> {
  const [row] = await db.rows<{ slots: number; others: OtherHolder[] }>(
    'renew-lease',
    `select renew_lease($1, $2, $3, $4, $5, $6, $7) as slots,
            (select coalesce(json_agg(json_build_object('slots', slots,
                      'demand', case when expires_at > clock_timestamp() then demand else 0 end)), '[]') from lease
             where resource = $1 and worker_id <> $2
               and expires_at + grace_ms * interval '1 millisecond' > clock_timestamp()) as others`,
    [resource, holderId, demand, inFlight, limit, ttlMs, graceMs],
  )
  return row!
}

/**
 * The holder id of the leases for a process's calibrations. It differs from the process id, so that the process's other
 * lease requests do not change these leases.
 */
export function calibrationHolder(processId: number): number {
  return -processId
}

/** Deletes all shares of processes that have ended or have no calls in flight. */
export async function dropLeases(db: Database, processIds: readonly number[]): Promise<void> {
  const holderIds = processIds.flatMap((id) => [id, calibrationHolder(id)])
  await db.adhoc('delete from lease where worker_id = any($1::int[])', [holderIds])
}
