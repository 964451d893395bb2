import { CALLS_GRACE_MS, type LeaseHolder } from '../cluster/lease-holder.ts'
import type { RewardManager } from '../rewards/managers/manager.ts'
import { managerNamed } from '../rewards/managers/registry.ts'
import type { Database } from '../store/database.ts'
import { type BatchSpec, batchSpec } from '../store/sql/worker-reads.ts'
import type { ClaimedJob } from './claimed-job.ts'
import { type GateSlot, SlotGate } from './slot-gate.ts'

const KEEP_BATCH_MS = 2_000

export interface ActiveBatch {
  spec: BatchSpec
  manager: RewardManager
  /** True once the batch was cancelled or passed its deadline. */
  hasEnded: boolean
  /** Enforces the batch's `maxConcurrency`, which is leased among the workers. */
  gate: SlotGate | null
  jobs: Set<ClaimedJob>
  leaving: boolean
}

export class ActiveBatches {
  readonly #db: Database
  readonly #leases: LeaseHolder
  readonly #batches = new Map<number, Promise<ActiveBatch | null>>()

  constructor(db: Database, leases: LeaseHolder) {
    this.#db = db
    this.#leases = leases
  }

  /**
   * Adds a claimed job to its batch, until `leave`. Returns null if the batch does not exist. A batch that was dropped
   * while it was being loaded is loaded again, because its gate has lost its slots.
   */
  async enter(job: ClaimedJob): Promise<ActiveBatch | null> {
    const id = job.job.data.b
    for (;;) {
      const loading = this.#batch(id)
      const batch = await loading
      if (batch === null) return null
      if (this.#batches.get(id) !== loading) continue
      batch.jobs.add(job)
      if (batch.hasEnded) job.abort.abort()
      return batch
    }
  }

  /** Removes a job. A batch without jobs is kept for 2 s, because its next single sample often arrives in that time. */
  leave(batch: ActiveBatch, job: ClaimedJob): void {
    batch.jobs.delete(job)
    if (batch.jobs.size > 0 || batch.leaving) return
    batch.leaving = true
    setTimeout(() => {
      batch.leaving = false
      if (batch.jobs.size > 0) return
      this.#batches.delete(batch.spec.id)
      if (batch.gate) this.#leases.forget(gateName(batch.spec.id))
    }, KEEP_BATCH_MS).unref()
  }

  /**
   * Waits for a slot of the batch's `maxConcurrency`. Returns null if the job's calls were cancelled in the meantime.
   */
  enterGate(id: number, gate: SlotGate, job: ClaimedJob): Promise<GateSlot | null> {
    this.#leases.want(gateName(id))
    return gate.enter(job.abort.signal)
  }

  ended(id: number): void {
    void this.#batches.get(id)?.then(
      (batch) => {
        if (batch === null) return
        batch.hasEnded = true
        for (const job of batch.jobs) job.abort.abort()
      },
      // `enter` reports the failure, and the jobs are requeued.
      () => {},
    )
  }

  #batch(id: number): Promise<ActiveBatch | null> {
    let batch = this.#batches.get(id)
    if (!batch) {
      batch = this.#load(id)
      this.#batches.set(id, batch)
      batch.catch(() => this.#batches.delete(id))
    }
    return batch
  }

  async #load(id: number): Promise<ActiveBatch | null> {
    const spec = await batchSpec(this.#db, id)
    if (!spec) return null
    const limit = spec.reward.maxConcurrency
    const gate = limit === null ? null : new SlotGate()
    if (gate && limit !== null) {
      this.#leases.track({
        name: gateName(id),
        limit,
        graceMs: CALLS_GRACE_MS,
        demand: () => gate.demand,
        inFlight: () => gate.inside,
        recall: () => gate.recall(),
        setSlots: (slots) => gate.setSlots(slots),
      })
    }
    return {
      spec,
      manager: managerNamed(spec.reward.manager),
      hasEnded: false,
      gate,
      jobs: new Set(),
      leaving: false,
    }
  }
}

function gateName(batchId: number): string {
  return `batch:${batchId}`
}
