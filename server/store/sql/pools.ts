import type { BalancingPolicyName } from '../../contract/pools.ts'
import { notify } from '../channels.ts'
import type { Database } from '../database.ts'

export interface PoolRow {
  model: string
  policy: BalancingPolicyName | null
  servers: number
  ready: number
  jobs_waiting: number
}

export async function poolRows(db: Database): Promise<PoolRow[]> {
  return db.rows(
    'pools-listed',
    `select pool.model, pool.policy, count(server.id)::int as servers,
            (count(server.id) filter (where server.state = 'ready'))::int as ready,
            (select count(*)::int from pgboss.job where job.name = pool.name and job.state < 'active') as jobs_waiting
     from pool join server on server.model = pool.model and server.removed_at is null
     where pool.model is not null group by pool.name, pool.model, pool.policy order by pool.model`,
  )
}

/**
 * Sets a pool's balancing policy, or restores the default if `policy` is null. Returns false if the pool does not
 * exist.
 */
export async function setPoolPolicy(
  db: Database,
  model: string,
  policy: BalancingPolicyName | null,
): Promise<boolean> {
  const rows = await db.adhoc<{ name: string }>(
    `update pool set policy = $2 where model = $1 returning name`,
    [model, policy],
  )
  if (rows.length > 0) await notify(db.pool, 'serversChanged')
  return rows.length > 0
}

export async function allPools(
  db: Database,
): Promise<{ name: string; model: string | null; policy: BalancingPolicyName | null }[]> {
  return db.rows('pools', 'select name, model, policy from pool')
}

export async function addPool(db: Database, name: string): Promise<void> {
  await db.rows('pool-insert', 'insert into pool (name) values ($1) on conflict do nothing', [name])
}
