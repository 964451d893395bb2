import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { isImageInRuns, runsOfBatches } from '../store/sql/batch-runs.ts'
import type { KeyHolder } from './key-holder.ts'

export interface NamedRuns {
  runs?: readonly string[]
  /** Ids of batches or samples: `b12`, `b12-3`. */
  batches?: readonly string[]
}

export type ScopedCaller = Pick<KeyHolder, 'name' | 'scope'>

/**
 * Maximum number of batches whose runs are kept in memory. A trainer polls few batches, which never change their run.
 */
const MAX_KNOWN = 10_000
const runOfBatch = new WeakMap<Database, Map<number, string>>()

/**
 * Refuses a call that names a run or batch outside the caller's run prefix, or that names neither a run nor a batch.
 * @throws RewardOpsError `forbidden_scope`, and `batch_not_found` for a batch that does not exist
 */
export async function checkRuns(
  db: Database,
  caller: ScopedCaller,
  what: string,
  { runs = [], batches = [] }: NamedRuns,
): Promise<void> {
  const prefix = caller.scope?.runPrefix ?? null
  if (prefix === null) return
  if (runs.length + batches.length === 0) throw outsideRuns(caller, `${what} names no run.`)
  for (const run of runs) {
    if (!run.startsWith(prefix)) {
      throw outsideRuns(caller, `${what} names the run "${run.slice(0, 80)}".`)
    }
  }
  for (const [batch, run] of await runsOf(db, batches)) {
    // The message does not name the run, because the caller must not learn the name.
    if (!run.startsWith(prefix)) throw outsideRuns(caller, `${what} names the batch ${batch}.`)
  }
}

/**
 * Refuses an image that no batch within the caller's run prefix has. The error is the same as for a missing image, so
 * the caller does not learn that the image exists.
 * @throws RewardOpsError `image_not_found`
 */
export async function checkImage(
  db: Database,
  { scope }: ScopedCaller,
  sha256: string,
): Promise<void> {
  if (scope === null || scope.runPrefix === null) return
  if (!(await isImageInRuns(db, sha256, scope.runPrefix))) {
    throw new RewardOpsError('image_not_found', `There is no image ${sha256}.`)
  }
}

/** The refusal of a call outside the caller's run prefix. `why` ends with a full stop. */
export function outsideRuns({ name, scope }: ScopedCaller, why: string): RewardOpsError {
  return new RewardOpsError(
    'forbidden_scope',
    `${why} The key "${name}" covers only runs whose names begin with "${scope?.runPrefix}".`,
  )
}

/** The run of each batch. @throws RewardOpsError `batch_not_found` */
async function runsOf(
  db: Database,
  ids: readonly string[],
): Promise<[batch: string, run: string][]> {
  const known = runOfBatch.get(db) ?? new Map<number, string>()
  runOfBatch.set(db, known)
  const numbers = new Map(ids.map((id) => [Number(/^b(\d{1,10})(?:-|$)/.exec(id)?.[1]), id]))
  // A copy, because this call and concurrent ones remove batches from `known`.
  const runs = new Map([...numbers.keys()].map((id) => [id, known.get(id)]))
  const stored = [...numbers.keys()].filter((id) => !known.has(id) && id <= 2_147_483_647)
  if (stored.length > 0) {
    for (const { id, run } of await runsOfBatches(db, stored)) {
      known.set(id, run)
      runs.set(id, run)
    }
    while (known.size > MAX_KNOWN) known.delete(known.keys().next().value as number)
  }
  return [...numbers].map(([number, id]) => {
    const batch = id.split('-', 1)[0] as string
    const run = runs.get(number)
    if (run === undefined) {
      throw new RewardOpsError('batch_not_found', `There is no batch ${batch}.`)
    }
    return [batch, run]
  })
}
