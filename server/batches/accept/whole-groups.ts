import type { ResolvedReward } from '../../contract/resolved-reward.ts'
import { RewardOpsError } from '../../errors.ts'
import type { Client } from '../../store/database.ts'
import { type ChunkJob, type JobQueue, toRanges } from '../../store/job-queue.ts'
import { samplesOfFilledGroups, samplesOfUnfilledGroups } from '../../store/sql/append.ts'

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
  const pending = await samplesOfFilledGroups(client, to.batchId, groups, groupSize)
  await queueGroups(client, queue, to, pending)
}

/** Queues the groups that no append filled, when the batch is closed. To be called once, in the transaction that closes it. */
export async function queueUnfilledGroups(
  client: Client,
  queue: JobQueue,
  to: GroupsOf,
  groupSize: number | null,
): Promise<void> {
  const pending = await samplesOfUnfilledGroups(client, to.batchId, groupSize)
  await queueGroups(client, queue, to, pending)
}

async function queueGroups(
  client: Client,
  queue: JobQueue,
  to: GroupsOf,
  pending: readonly { group_no: number; idx: number }[],
): Promise<void> {
  const groups = Map.groupBy(pending, (sample) => sample.group_no)
  const jobs = wholeGroupJobs(
    [...groups.values()].map((members) => members.map(({ idx }) => idx)),
    to.batchId,
    to.nowMs,
  )
  await queue.insert(to.pool, jobs, { run: to.run, priority: to.priority, client })
}
