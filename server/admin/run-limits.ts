import type { LimitsDto, RunLimitValues, SetLimitsInput } from '../contract/limits.ts'
import { RewardOpsError } from '../errors.ts'
import { Memo } from '../memo.ts'
import type { Client, Database } from '../store/database.ts'
import {
  allLimits,
  clearLimits,
  type RunLimitRow,
  type RunUsage,
  setLimits,
  usageHeld,
  usageOf,
} from '../store/sql/run-limits.ts'

export const MAX_LIMITED_RUNS = 1_000
/** Maximum time until a change by another process takes effect here. */
const TTL_MS = 1_000
const RETRY_AFTER_MS = 2_000

/** The run name under which the default limits are stored. */
const DEFAULT = ''
const NO_LIMITS: RunLimitValues = {
  maxQueuedSamples: null,
  maxOpenBatches: null,
  maxPriority: null,
}

export interface Addition {
  samples: number
  batches: number
}

type Known = ReadonlyMap<string, RunLimitValues>

// Keyed by `Database`, because the server's event loop and the ingest thread have separate ones.
const known = new WeakMap<Database, Memo<Known>>()

function valuesOf(row: RunLimitRow): RunLimitValues {
  return {
    maxQueuedSamples: row.max_queued_samples,
    maxOpenBatches: row.max_open_batches,
    maxPriority: row.max_priority,
  }
}

/** The limits of a run, up to a second old; null if it has none. */
export async function limitsOf(db: Database, run: string): Promise<RunLimitValues | null> {
  return (await limitsReader(db))(run)
}

/**
 * Returns a function that returns a run's limits, up to a second old. It is for transactions that learn only later
 * which run they concern.
 */
export async function limitsReader(db: Database): Promise<(run: string) => RunLimitValues | null> {
  let memo = known.get(db)
  if (memo === undefined) {
    memo = new Memo<Known>(TTL_MS)
    known.set(db, memo)
  }
  const all = await memo.get('', async () => {
    const rows = await allLimits(db, MAX_LIMITED_RUNS + 1)
    return new Map(rows.map((row) => [row.run, valuesOf(row)]))
  })
  return (run) => {
    const limits = all.get(run) ?? all.get(DEFAULT)
    return limits === undefined || Object.values(limits).every((value) => value === null)
      ? null
      : limits
  }
}

/** @throws RewardOpsError `run_limit` for a priority above the run's maximum */
export function checkPriority(
  limits: RunLimitValues | null,
  envelope: { run: string; priority: number },
): void {
  const max = limits?.maxPriority ?? null
  if (max === null || envelope.priority <= max) return
  throw new RewardOpsError(
    'run_limit',
    `priority is ${envelope.priority}, and the maximum of run "${envelope.run}" is ${max}.`,
  )
}

/**
 * Enforces a run's limits within the transaction that adds to the run. Usage is counted under a lock, so other
 * additions to the run wait for the end of the transaction.
 * @throws RewardOpsError `run_queue_full`, `run_limit`
 */
export async function enforceLimits(
  client: Client,
  limits: RunLimitValues | null,
  run: { id: number; name: string },
  adds: Addition,
): Promise<void> {
  if (limits === null || !counts(limits)) return
  checkAddition(limits, run.name, await usageHeld(client, run.id), adds)
}

/** Checks a run's limits without a lock, so that most requests over a limit are refused before they cost work. */
export async function foreseeLimits(
  db: Database,
  limits: RunLimitValues | null,
  run: string,
  adds: Addition,
): Promise<void> {
  if (limits === null || !counts(limits)) return
  checkAddition(limits, run, await usageOf(db, run), adds)
}

function counts({ maxQueuedSamples, maxOpenBatches }: RunLimitValues): boolean {
  return maxQueuedSamples !== null || maxOpenBatches !== null
}

/** @throws RewardOpsError `run_queue_full` for an addition that may fit later, `run_limit` for one that never does */
export function checkAddition(
  { maxQueuedSamples, maxOpenBatches }: RunLimitValues,
  run: string,
  has: RunUsage,
  adds: Addition,
): void {
  const full = (text: string) =>
    new RewardOpsError('run_queue_full', text, { retryAfterMs: RETRY_AFTER_MS })
  if (maxQueuedSamples !== null && adds.samples > 0) {
    if (adds.samples > maxQueuedSamples) {
      throw new RewardOpsError(
        'run_limit',
        `The request has ${adds.samples} samples, and run "${run}" may queue at most ${maxQueuedSamples}.`,
        { hint: 'Send fewer samples per request. An admin sets the limit under Settings, Limits.' },
      )
    }
    if (has.queued + adds.samples > maxQueuedSamples) {
      throw full(
        `Run "${run}" has ${has.queued} of at most ${maxQueuedSamples} queued samples: ${adds.samples} more exceed the limit.`,
      )
    }
  }
  if (maxOpenBatches !== null && adds.batches > 0) {
    if (maxOpenBatches === 0) {
      throw new RewardOpsError('run_limit', `Run "${run}" may not have any batches.`)
    }
    if (has.batches + adds.batches > maxOpenBatches) {
      throw full(`Run "${run}" has ${has.batches} of at most ${maxOpenBatches} active batches.`)
    }
  }
}

export class LimitSettings {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  async get(): Promise<LimitsDto> {
    const rows = await allLimits(this.#db, MAX_LIMITED_RUNS + 1)
    const own = rows.filter((row) => row.run !== DEFAULT)
    const runs: LimitsDto['runs'] = []
    for (const row of own) {
      const { queued, batches } = await usageOf(this.#db, row.run)
      runs.push({
        run: row.run,
        ...valuesOf(row),
        changedAt: row.changed_at.toISOString(),
        changedBy: row.changed_by,
        queuedSamples: queued,
        openBatches: batches,
      })
    }
    const byDefault = rows.find((row) => row.run === DEFAULT)
    return { defaults: byDefault ? valuesOf(byDefault) : NO_LIMITS, runs }
  }

  /** @throws RewardOpsError `invalid_input` when too many runs have their own limits */
  async set({ run, limits }: SetLimitsInput, by: string): Promise<LimitsDto> {
    const rows = await allLimits(this.#db, MAX_LIMITED_RUNS + 1)
    if (rows.length > MAX_LIMITED_RUNS && !rows.some((row) => row.run === (run ?? DEFAULT))) {
      throw new RewardOpsError(
        'invalid_input',
        `run: ${MAX_LIMITED_RUNS} runs already have their own limits`,
      )
    }
    await setLimits(this.#db, run ?? DEFAULT, limits, by)
    known.delete(this.#db)
    return this.get()
  }

  async clear(run: string): Promise<LimitsDto> {
    await clearLimits(this.#db, run)
    known.delete(this.#db)
    return this.get()
  }
}
