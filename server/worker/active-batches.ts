import { CALLS_GRACE_MS, type LeaseHolder } from '../cluster/lease-holder.ts'
import type { RewardManager } from '../rewards/managers/manager.ts'
import { managerNamed } from '../rewards/managers/registry.ts'
import type { Database } from '../store/database.ts'
import { type BatchSpec, batchSpec } from '../store/sql/worker-reads.ts'
import { SlotGate } from './slot-gate.ts'

/** A batch's reward is remembered for this long after its last job. */
const KEEP_BATCH_MS = 2_000

/** A batch in hand. */
export interface ActiveBatch {
  spec: BatchSpec
  manager: RewardManager
  abort: AbortController
  /** Holds the batch's own `maxConcurrency`, leased among the workers. */
  gate: SlotGate | null
  jobs: number
  leaving: boolean
}

/** The batches whose jobs this worker holds, or held a moment ago. */
export class ActiveBatches {
  readonly #db: Database
  readonly #leases: LeaseHolder
  readonly #batches = new Map<number, Promise<ActiveBatch | null>>()

  constructor(db: Database, leases: LeaseHolder) {
    this.#db = db
    this.#leases = leases
  }

  /** A job of it is in hand, and left one day: a batch forgotten meanwhile would have lost its gate's slots for good. */
  async enter(id: number): Promise<ActiveBatch | null> {
    for (;;) {
      const loading = this.#batch(id)
      const batch = await loading
      if (batch === null) return null
      if (this.#batches.get(id) !== loading) continue
      batch.jobs++
      return batch
    }
  }

  /** Forgets a batch that has had no jobs in hand for a while: what scores one sample at a time comes back soon. */
  leave(batch: ActiveBatch): void {
    batch.jobs--
    if (batch.jobs > 0 || batch.leaving) return
    batch.leaving = true
    setTimeout(() => {
      batch.leaving = false
      if (batch.jobs > 0) return
      this.#batches.delete(batch.spec.id)
      if (batch.gate) this.#leases.forget(gateName(batch.spec.id))
    }, KEEP_BATCH_MS).unref()
  }

  /** Waits for one of the samples that may be in flight of a batch at once; false when the batch ended meanwhile. */
  async enterGate(batch: ActiveBatch): Promise<boolean> {
    if (batch.gate === null) return true
    this.#leases.want(gateName(batch.spec.id))
    return batch.gate.enter(batch.abort.signal)
  }

  /** A batch was cancelled, or its deadline passed: what is in flight for it stops. */
  ended(id: number): void {
    void this.#batches.get(id)?.then((batch) => batch?.abort.abort())
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
        setSlots: (slots) => gate.setSlots(slots),
      })
    }
    return {
      spec,
      manager: managerNamed(spec.reward.manager),
      abort: new AbortController(),
      gate,
      jobs: 0,
      leaving: false,
    }
  }
}

function gateName(batchId: number): string {
  return `batch:${batchId}`
}
