import { batchNumber } from '../batches/batch-reader.ts'
import {
  MAX_PLANNED_REWARDS,
  type PlannedRewards,
  type PlannerDto,
  type PlannerInput,
  type PlannerSource,
} from '../contract/planner.ts'
import { RewardOpsError, runNotFound } from '../errors.ts'
import type { StepRewards } from '../planner/overlap.ts'
import { type PlanSize, planSteps, tooLarge } from '../planner/plan.ts'
import { trainerTimes } from '../planner/trainer-times.ts'
import { typedSteps } from '../planner/typed-rewards.ts'
import type { Database } from '../store/database.ts'
import {
  type PlannableBatch,
  plannableBatch,
  plannableBatches,
  recordedLatencies,
} from '../store/sql/planner.ts'

interface Rewards {
  steps: StepRewards[]
  summary: PlannedRewards
}

/** Maximum number of queued plans; each takes up to 2 s of CPU. */
const MAX_WAITING = 8
/** Concurrency per server if none was recorded. The value is from the experiment of verl PR 2854. */
const ASSUMED_CONCURRENCY = 256

export class PlannerView {
  readonly #db: Database
  #waiting = 0
  #line: Promise<unknown> = Promise.resolve()

  constructor(db: Database) {
    this.#db = db
  }

  /**
   * Computes the result of `planner.plan`, which depends only on the input and the recorded batches.
   * @throws RewardOpsError `plan_too_large`, `batch_not_found`, `run_not_found`, `nothing_recorded`, or `busy` when eight
   * others are queued
   */
  async plan(input: PlannerInput, signal?: AbortSignal): Promise<PlannerDto> {
    if (this.#waiting >= MAX_WAITING) {
      throw new RewardOpsError('busy', `${MAX_WAITING} plans are already queued.`, {
        retryAfterMs: 1_000,
      })
    }
    this.#waiting++
    const made = this.#line.then(() => {
      this.#waiting--
      return this.#make(input, signal)
    })
    this.#line = made.catch(() => {})
    return made
  }

  async #make(input: PlannerInput, signal?: AbortSignal): Promise<PlannerDto> {
    signal?.throwIfAborted()
    const { source, phases, ...plan } = input
    const { steps, summary } = await this.#rewardsOf(source, {
      ...plan,
      limits: plan.limits ?? [ASSUMED_CONCURRENCY, null],
    })
    const times = trainerTimes(phases, summary)
    const { recordedConcurrency } = summary
    const limits = plan.limits ?? [recordedConcurrency ?? ASSUMED_CONCURRENCY, null]
    return {
      ...times,
      limitsFrom: plan.limits ? 'input' : recordedConcurrency === null ? 'assumption' : 'record',
      steps: plan.steps,
      miniBatches: plan.miniBatches,
      rewards: summary,
      ...(await planSteps({ ...plan, limits, phases: times.phases }, steps, signal)),
    }
  }

  async #rewardsOf(source: PlannerSource, plan: PlanSize): Promise<Rewards> {
    if (source.kind === 'typed') {
      checkSize(plan, source.prompts * source.groupSize)
      return describe(typedSteps(source, plan.steps), {
        ...{ batches: [], pending: 0, concurrency: 0, stepMs: null },
      })
    }
    const batches = await this.#batchesOf(source, plan.steps)
    checkSize(plan, Math.max(...batches.map(({ samples }) => samples)))
    const recorded: StepRewards[] = []
    const from: PlannableBatch[] = []
    let pending = 0
    let concurrency = 0
    for (const batch of batches) {
      const latencies = await recordedLatencies(this.#db, batch.id, MAX_PLANNED_REWARDS)
      pending += latencies.pending
      concurrency = Math.max(concurrency, latencies.concurrency)
      if (latencies.scoreMs.length === 0) continue
      recorded.push(stepOf(latencies.scoreMs, latencies.groupNo))
      from.push(batch)
    }
    if (recorded.length === 0) {
      throw new RewardOpsError(
        'nothing_recorded',
        'No sample of the selected batches has ended yet.',
      )
    }
    const steps = Array.from(
      { length: plan.steps },
      (_, i) => recorded[i % recorded.length] as StepRewards,
    )
    const stepMs =
      source.kind === 'run' ? medianGapMs(from) : await this.#stepMsOf(from[0]!.run, plan.steps)
    return describe(steps, { batches: from, pending, concurrency, stepMs })
  }

  /** Returns the step time of a run. It is used for a single batch, which has no step time of its own. */
  async #stepMsOf(run: string, steps: number): Promise<number | null> {
    const newest = (await plannableBatches(this.#db, run, steps)) ?? []
    return medianGapMs(newest.reverse())
  }

  /** The batches of a source, oldest first. */
  async #batchesOf(
    source: Exclude<PlannerSource, { kind: 'typed' }>,
    steps: number,
  ): Promise<PlannableBatch[]> {
    if (source.kind === 'batch') {
      const batch = await plannableBatch(this.#db, batchNumber(source.batchId))
      if (batch === undefined) {
        throw new RewardOpsError('batch_not_found', `There is no batch ${source.batchId}.`)
      }
      return [batch]
    }
    const batches = await plannableBatches(this.#db, source.run, steps)
    if (batches === null) {
      throw runNotFound(source.run)
    }
    if (batches.length === 0) {
      throw new RewardOpsError(
        'nothing_recorded',
        `No training batch of run "${source.run}" has completed yet.`,
      )
    }
    return batches.reverse()
  }
}

function checkSize(plan: PlanSize, samplesOfStep: number): void {
  const why = tooLarge(plan, samplesOfStep)
  if (why !== null) throw new RewardOpsError('plan_too_large', why)
}

/** Renumbers groups without gaps, because groups with only pending samples are missing. */
function stepOf(rewardMs: Float64Array, groupNo: Int32Array): StepRewards {
  const known = new Map<number, number>()
  const groupOf = groupNo.map((no) => {
    const at = known.get(no) ?? known.size
    known.set(no, at)
    return at
  })
  return { rewardMs, groupOf, groups: known.size }
}

/** The recorded values. `concurrency` is 0 if no sample had a call. */
interface Recorded {
  batches: PlannableBatch[]
  pending: number
  concurrency: number
  stepMs: number | null
}

function describe(
  steps: StepRewards[],
  { batches: from, pending, concurrency, stepMs }: Recorded,
): Rewards {
  // A repeated step counts once.
  const distinct = [...new Set(steps)]
  const n = distinct.reduce((sum, { rewardMs }) => sum + rewardMs.length, 0)
  const all = new Float64Array(n)
  let at = 0
  for (const { rewardMs } of distinct) {
    all.set(Float64Array.from(rewardMs), at)
    at += rewardMs.length
  }
  all.sort()
  const sumMs = all.reduce((sum, ms) => sum + ms, 0)
  // The nearest rank is used, so that each quantile is a measured time, not an interpolated one.
  const quantile = (q: number) => all[Math.max(0, Math.ceil(q * n) - 1)] ?? 0
  return {
    steps,
    summary: {
      samples: Math.round(n / distinct.length),
      groups: Math.round(distinct.reduce((sum, { groups }) => sum + groups, 0) / distinct.length),
      meanMs: n > 0 ? sumMs / n : 0,
      p50Ms: quantile(0.5),
      p99Ms: quantile(0.99),
      maxMs: quantile(1),
      workMs: sumMs / distinct.length,
      batches: from.map(({ id, step }) => ({ batchId: `b${id}`, step })),
      pending,
      withoutCall: from.length > 0 ? all.lastIndexOf(0) + 1 : 0,
      recordedConcurrency: concurrency === 0 ? null : concurrency,
      recordedStepMs: stepMs,
      recordedWaitMs: medianWaitMs(from),
    },
  }
}

/** Returns the median time between submissions of successive batches, ms, or null for fewer than two batches. */
function medianGapMs(batches: readonly PlannableBatch[]): number | null {
  return medianOf(
    batches
      .slice(1)
      .map(
        ({ submitted_at }, i) =>
          submitted_at.getTime() - (batches[i] as PlannableBatch).submitted_at.getTime(),
      ),
  )
}

/** Returns the median time from the submission of a batch to its end, ms, or null if none has ended. */
function medianWaitMs(batches: readonly PlannableBatch[]): number | null {
  return medianOf(
    batches.flatMap(({ submitted_at, completed_at }) =>
      completed_at === null ? [] : [completed_at.getTime() - submitted_at.getTime()],
    ),
  )
}

function medianOf(values: readonly number[]): number | null {
  return values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)] ?? null
}
