import { RewardOpsError } from '../../errors.ts'
import type { Client } from '../../store/database.ts'
import { type ChunkJob, type JobQueue, toRanges } from '../../store/job-queue.ts'
import type { ResolvedReward } from '../../wire/resolved-reward.ts'

/** Samples of a job, unless a group alone has more. */
const JOB_SAMPLES = 64

/** Whether a reward is called with all members of a group: a job never holds a part of one. */
export function scoresWholeGroups(reward: Pick<ResolvedReward, 'manager'>): boolean {
  return reward.manager === 'batch'
}

/** A sample handed over alone would wait for a group that nobody closes. Throws `unsupported_setting`. */
export function refuseSingles(reward: ResolvedReward): void {
  const why = scoresWholeGroups(reward)
    ? 'the manager batch scores whole groups'
    : reward.postProcess !== undefined
      ? 'its function post-processes the scores of whole groups'
      : null
  if (why === null) return
  throw new RewardOpsError(
    'unsupported_setting',
    `samples.score takes a sample alone, and ${why}.`,
    {
      hint: 'Submit the group with batches.submit, or stream it in with batches.append.',
    },
  )
}

/** Cuts groups into jobs without cutting a group. */
export function wholeGroupJobs(
  groups: Iterable<readonly number[]>,
  batchId: number,
  acceptedAtMs: number,
): ChunkJob[] {
  const jobs: ChunkJob[] = []
  let held: number[] = []
  const push = () => {
    if (held.length === 0) return
    held.sort((a, b) => a - b)
    jobs.push({ b: batchId, i: toRanges(held), t: acceptedAtMs })
    held = []
  }
  for (const group of groups) {
    if (held.length + group.length > JOB_SAMPLES) push()
    held.push(...group)
  }
  push()
  return jobs
}

/** Where jobs of groups go. */
interface GroupsOf {
  batchId: number
  run: string
  priority: number
  pool: string
  /** When they were accepted, by the database's clock. */
  nowMs: number
}

/** Queues the groups among these that are full now, once: a group is filled by one append. */
export async function queueFilledGroups(
  client: Client,
  queue: JobQueue,
  to: GroupsOf,
  groups: readonly number[],
  groupSize: number | null,
): Promise<void> {
  if (groupSize === null) return
  await queueGroups(client, queue, to, 'g.no = any($2::int[]) and g.received = $3', [
    groups,
    groupSize,
  ])
}

/** Queues the groups that no append filled, when the batch is closed. To be called once, in the transaction that closes it. */
export async function queueUnfilledGroups(
  client: Client,
  queue: JobQueue,
  to: GroupsOf,
  groupSize: number | null,
): Promise<void> {
  await queueGroups(client, queue, to, '($2::int is null or g.received < $2)', [groupSize])
}

async function queueGroups(
  client: Client,
  queue: JobQueue,
  to: GroupsOf,
  condition: string,
  values: unknown[],
): Promise<void> {
  const { rows } = await client.query<{ group_no: number; idx: number }>(
    `select s.group_no, s.idx from sample s join sample_group g on g.batch_id = s.batch_id and g.no = s.group_no
     where s.batch_id = $1 and s.status = 0 and ${condition} order by s.batch_id, s.idx`,
    [to.batchId, ...values],
  )
  const groups = Map.groupBy(rows, (row) => row.group_no)
  const jobs = wholeGroupJobs(
    [...groups.values()].map((members) => members.map(({ idx }) => idx)),
    to.batchId,
    to.nowMs,
  )
  await queue.insert(to.pool, jobs, { run: to.run, priority: to.priority, client })
}
