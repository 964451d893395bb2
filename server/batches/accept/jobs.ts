import { modelsOf, type ResolvedReward } from '../../contract/resolved-reward.ts'
import { RewardOpsError } from '../../errors.ts'
import { usesLocalSandbox } from '../../rewards/resolve.ts'
import type { Client, Database } from '../../store/database.ts'
import {
  type ChunkJob,
  FUNCTIONS_POOL,
  INTERACTIVE_POOL,
  type JobQueue,
  poolOfLimiter,
  poolOfModel,
  RULES_POOL,
  SANDBOX_POOL,
  SERVICES_POOL,
  toRanges,
} from '../../store/job-queue.ts'
import { samplesOfFilledGroups, samplesOfUnfilledGroups } from '../../store/sql/append.ts'
import { addPool } from '../../store/sql/pools.ts'

/** Maximum number of samples per job. A job for a group that must not be split may have more. */
const MAX_JOB_SAMPLES = 64

export function poolOf(reward: ResolvedReward): string {
  // Jobs that wait for a limiter have their own queue, so that they do not block other jobs.
  if (reward.limiter !== undefined) return poolOfLimiter(reward.limiter.name)
  if (reward.kind === 'rule') return RULES_POOL
  const models = modelsOf(reward)
  // A composite reward with models uses the pool of its first model, because models are its slowest components.
  if (models.length > 0) return poolOfModel(models[0] as string)
  const isFunction = reward.processes !== undefined || callsFunctions(reward)
  if (isFunction) return FUNCTIONS_POOL
  return usesLocalSandbox(reward) ? SANDBOX_POOL : SERVICES_POOL
}

function callsFunctions({ kind, components = [] }: ResolvedReward): boolean {
  return kind === 'function' || components.some(({ reward }) => callsFunctions(reward))
}

/** Creates the pool's queue if needed. Workers find the pool of a limiter by the pool's row in the table `pool`. */
export async function ensurePool(
  db: Database,
  queue: JobQueue,
  pool: string,
  reward: ResolvedReward,
): Promise<void> {
  await queue.ensure(pool)
  if (reward.limiter === undefined || pool === INTERACTIVE_POOL) return
  await addPool(db, pool)
}

/**
 * Splits samples into jobs of about 16 to 64 samples and keeps groups together. Groups are ordered by arrival or, if
 * `workOf` is given, by descending work, so that a step does not end with its longest group. 64 jobs per batch keep
 * every worker busy to the end. With fewer than 16 samples per job, the queue's cost (0.13 ms per job) becomes
 * noticeable.
 */
export function chunk(
  indexes: readonly number[],
  groupOf: (index: number) => number,
  batchId: number,
  acceptedAtMs: number,
  workOf?: (index: number) => number,
): ChunkJob[] {
  const target = Math.min(MAX_JOB_SAMPLES, Math.max(16, Math.ceil(indexes.length / 64)))
  const members = new Map<number, number[]>()
  for (const index of indexes) {
    const group = groupOf(index)
    const list = members.get(group)
    if (list) list.push(index)
    else members.set(group, [index])
  }
  let groups = [...members.values()]
  if (workOf) {
    const weighed = groups.map((list) => ({
      list,
      work: list.reduce((sum, index) => sum + workOf(index), 0),
    }))
    groups = weighed.sort((a, b) => b.work - a.work).map(({ list }) => list)
  }
  const jobs = new JobList(batchId, acceptedAtMs)
  for (const list of groups) {
    if (!jobs.hasRoomFor(list.length)) jobs.end()
    // A group larger than a job is split across jobs. This is safe, because delivery counts the group's samples, not
    // its jobs.
    for (let k = 0; k < list.length; k += MAX_JOB_SAMPLES) {
      jobs.add(list.slice(k, k + MAX_JOB_SAMPLES))
      if (jobs.openSamples >= target) jobs.end()
    }
  }
  return jobs.end()
}

/** The jobs of a batch. The last job is open: samples are added to the job until `end` is called. */
class JobList {
  readonly #batchId: number
  readonly #acceptedAtMs: number
  readonly #ended: ChunkJob[] = []
  #open: number[] = []

  constructor(batchId: number, acceptedAtMs: number) {
    this.#batchId = batchId
    this.#acceptedAtMs = acceptedAtMs
  }

  get openSamples(): number {
    return this.#open.length
  }

  hasRoomFor(samples: number): boolean {
    return this.#open.length + samples <= MAX_JOB_SAMPLES
  }

  add(indexes: readonly number[]): void {
    this.#open.push(...indexes)
  }

  end(): ChunkJob[] {
    if (this.#open.length > 0) {
      const ranges = toRanges(this.#open.sort((a, b) => a - b))
      this.#ended.push({ b: this.#batchId, i: ranges, t: this.#acceptedAtMs })
      this.#open = []
    }
    return this.#ended
  }
}

/** Returns whether a reward needs all samples of a group in one call, so that a group must not be split across jobs. */
export function scoresWholeGroups(reward: Pick<ResolvedReward, 'manager'>): boolean {
  return reward.manager === 'batch'
}

/**
 * Refuses a reward that needs whole groups for samples that arrive one at a time. Throws
 * `unsupported_setting`.
 */
export function refuseSingles(reward: ResolvedReward): void {
  const why = scoresWholeGroups(reward)
    ? 'the manager batch scores whole groups'
    : reward.postProcess !== undefined
      ? 'its function post-processes the scores of whole groups'
      : null
  if (why === null) return
  throw new RewardOpsError(
    'unsupported_setting',
    `samples.score scores samples one at a time, but ${why}.`,
    {
      hint: 'Submit the group with batches.submit, or stream it in with batches.append.',
    },
  )
}

export function wholeGroupJobs(
  groups: Iterable<readonly number[]>,
  batchId: number,
  acceptedAtMs: number,
): ChunkJob[] {
  const jobs = new JobList(batchId, acceptedAtMs)
  for (const group of groups) {
    if (!jobs.hasRoomFor(group.length)) jobs.end()
    jobs.add(group)
  }
  return jobs.end()
}

interface GroupsOf {
  batchId: number
  run: string
  priority: number
  pool: string
  /** Time of acceptance on the database's clock. */
  nowMs: number
}

/**
 * Queues the given groups that are full. Each group is queued once, because exactly one append fills it.
 */
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

/** Queues the groups that no append filled. Call it once, in the transaction that closes the batch. */
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
