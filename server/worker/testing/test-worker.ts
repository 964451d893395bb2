import type { LeaseHolder } from '../../cluster/lease-holder.ts'
import type { ProcessRow } from '../../cluster/process-row.ts'
import { createLogger } from '../../log.ts'
import type { FunctionPool } from '../../rewards/functions/function-pool.ts'
import type { Database } from '../../store/database.ts'
import type { JobQueue } from '../../store/job-queue.ts'
import { RewardLoopWorker } from '../reward-loop-worker.ts'

/** Creates a worker that runs rules and custom functions, but calls no reward models. */
export function testWorker(of: {
  db: Database
  row: ProcessRow
  queue: JobQueue
  leases: LeaseHolder
  functions: FunctionPool
}): RewardLoopWorker {
  const { db, row, queue, leases, functions } = of
  return new RewardLoopWorker({
    id: row.id,
    db,
    queue,
    tools: { router: {}, functions, limits: {} } as never,
    leases,
    slotsOf: () => 0,
    fairShareOf: () => 0,
    wantSlots: () => {},
    functionCapacity: () => 8,
    limiterCapacity: () => 0,
    clock: row.clock,
    onUrgentCommitted: null,
    log: createLogger('silent', 'test'),
  })
}

export async function insertBatch(db: Database, reward: object, samples: number): Promise<number> {
  const [batch] = await db.adhoc<{ id: number }>(
    `with new_run as (
       insert into run (name) values ('r') on conflict (name) do update set name = excluded.name returning id)
     insert into batch (run_id, step, split, status, closed, reward, reward_name, samples, groups, text_bucket)
     select id, 1, 'train', 'running', true, $1, 'test', $2, 1, current_date from new_run returning id`,
    [
      JSON.stringify({
        ...{ manager: 'naive', model: null, kwargs: {}, timeoutMs: 60_000, maxAttempts: 1 },
        ...{ maxConcurrency: null, onFailure: { policy: 'null' }, ...reward },
      }),
      samples,
    ],
  )
  const { id } = batch!
  await db.adhoc("insert into sample_group (batch_id, no, uid, received) values ($1, 0, 'q', $2)", [
    id,
    samples,
  ])
  await db.adhoc(
    `insert into sample (batch_id, idx, group_no, data_source)
     select $1, i, 0, 'test' from generate_series(0, $2::int - 1) i`,
    [id, samples],
  )
  return id
}

export async function queueSamples(
  db: Database,
  queue: JobQueue,
  pool: string,
  batchId: number,
  samples: number,
): Promise<void> {
  const texts = { prompt: '', response: 'a', ground_truth: '"a"', extra_info: null, encoding: 0 }
  const s = Array.from({ length: samples }, (_, idx) => ({
    ...{ idx, data_source: 'openai/gsm8k', ...texts },
  }))
  const job = { b: batchId, i: [0, samples - 1], t: Date.now(), s }
  await db.transaction((client) => queue.insert(pool, [job], { run: 'r', priority: 0, client }))
}
