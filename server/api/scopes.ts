import type { KeyScope } from '../admin/key-holder.ts'
import {
  checkImage,
  checkRuns,
  type NamedRuns,
  outsideRuns,
  type ScopedCaller,
} from '../admin/run-scope.ts'
import { RewardOpsError } from '../errors.ts'
import type { Database } from '../store/database.ts'
import { type Fields, roleNeeded, type SurfaceName } from './roles.ts'

/**
 * The limits of keys within their roles: `access` and the run prefix. A key with a run prefix or the access `submit`
 * may call only the procedures and surfaces (endpoints outside tRPC) that the tables below list, so a new procedure is
 * closed to it until it is listed. scopes.test.ts compares the tables with the router.
 */

export type CallType = 'query' | 'mutation' | 'subscription'

/** The calls that keys with the access `submit` permit. */
const SUBMIT: ReadonlySet<string> = new Set<string>([
  'batches.submit',
  'batches.append',
  'batches.close',
  'batches.cancel',
  'batches.next',
  'batches.wait',
  'batches.results',
  'batches.get',
  'samples.score',
  'runs.update',
  'dialects',
  'openapi',
])

/** Surfaces that keys with the access `read` may not call. For procedures, type and role decide. */
const CHANGING: ReadonlySet<string> = new Set<SurfaceName>([
  'router',
  'dialects',
  'batches.submit',
  'batches.append',
  'samples.score',
])

/** The input fields that name runs and batches. */
interface RunFields {
  runs?: readonly string[]
  batches?: readonly string[]
}

const byBatch: RunFields = { batches: ['batchId'] }
const byRun: RunFields = { runs: ['run'] }
const byFilter: RunFields = { runs: ['run'], batches: ['batch'] }
const byPair: RunFields = { batches: ['first', 'second'] }

/**
 * The calls that keys with a run prefix permit, with the input fields that name runs, batches or samples. At least one
 * field must be given, and each must name a run within the prefix. Null: the call neither reads nor changes data of a
 * run.
 */
export const RUN_FIELDS: Readonly<Record<string, RunFields | null>> = {
  'batches.submit': byRun,
  'batches.append': byBatch,
  'batches.rescore': byBatch,
  'batches.close': byBatch,
  'batches.cancel': byBatch,
  'batches.next': byBatch,
  'batches.wait': byBatch,
  'batches.results': byBatch,
  'batches.get': byBatch,
  'batches.list': byRun,
  'batches.view': byBatch,
  'batches.groups': byBatch,
  'batches.timeline': byBatch,
  'batches.bottleneck': byBatch,
  'samples.score': { runs: ['run'], batches: ['batchId'] },
  'samples.get': { batches: ['id'] },
  'samples.list': byFilter,
  'samples.count': byFilter,
  'samples.byBatch': byFilter,
  'samples.facets': byFilter,
  'samples.extraKeys': byFilter,
  'samples.firstLines': { batches: ['ids'] },
  'annotations.of': { batches: ['sample'] },
  'annotations.labels': byFilter,
  'runs.get': { runs: ['name'] },
  'runs.changes': { runs: ['name'] },
  'runs.config': byRun,
  'runs.update': byRun,
  'marks.list': byRun,
  'marks.create': byRun,
  'monitors.run': byRun,
  'monitors.history': byRun,
  'prompts.list': byRun,
  'prompts.counts': byRun,
  'prompts.history': byRun,
  'prompts.heat': byRun,
  'prompts.steps': byRun,
  'prompts.sample': byRun,
  'compare.pair': byPair,
  'compare.samples': byPair,
  'compare.groups': byPair,
  'compare.runs': { runs: ['runs'] },
  'rewards.components': byRun,
  'rewards.list': null,
  'rewards.try': null,
  'rewards.importConfig': null,
  'servers.list': null,
  'pools.list': null,
  // Endpoints outside tRPC.
  export: byFilter,
  // `checkImage` refuses images of other runs.
  images: null,
  openapi: null,
  models: null,
  router: null,
  dialects: byRun,
}

/**
 * Checks the limits of a key that can be checked without the input of the call. `type` is null for a surface outside
 * tRPC.
 * @throws RewardOpsError `forbidden_scope`
 */
export function checkAccess(caller: ScopedCaller, what: string, type: CallType | null): void {
  const { name, scope } = caller
  if (scope === null) return
  if (scope.access === 'submit' && !SUBMIT.has(what)) {
    throw new RewardOpsError(
      'forbidden_scope',
      `${what} is refused: the key "${name}" only submits and reads results.`,
    )
  }
  const changes =
    type === null ? CHANGING.has(what) : type === 'mutation' && roleNeeded(what, type) !== 'viewer'
  if (scope.access === 'read' && changes) {
    throw new RewardOpsError('forbidden_scope', `${what} is refused: the key "${name}" only reads.`)
  }
  if (scope.runPrefix !== null && !Object.hasOwn(RUN_FIELDS, what)) {
    throw outsideRuns(caller, `${what} is not limited to one run.`)
  }
}

/** Whether a key of this scope may make a call; `runs`: only for the runs of its prefix. */
export function callableIn(
  scope: KeyScope,
  what: string,
  type: CallType | null,
): 'yes' | 'runs' | 'no' {
  try {
    checkAccess({ name: '', scope }, what, type)
  } catch {
    return 'no'
  }
  const isBound = scope.runPrefix !== null && (what === 'images' || RUN_FIELDS[what] !== null)
  return isBound ? 'runs' : 'yes'
}

/** Checks calls of keys with a scope. */
export class Scopes {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /**
   * Checks a call and its input, before the input is validated. `type` is null for a surface outside tRPC.
   * @throws RewardOpsError `forbidden_scope`, `batch_not_found`
   */
  async check(
    caller: ScopedCaller,
    what: string,
    type: CallType | null,
    input: unknown,
  ): Promise<void> {
    if (caller.scope === null) return
    checkAccess(caller, what, type)
    const fields = RUN_FIELDS[what]
    if (fields !== null && fields !== undefined) {
      await checkRuns(this.#db, caller, what, namedIn(fields, input))
    }
  }

  /** Refuses an image that no batch within the caller's run prefix has. @throws RewardOpsError `image_not_found` */
  checkImage(caller: ScopedCaller, sha256: string): Promise<void> {
    return checkImage(this.#db, caller, sha256)
  }
}

/** Whether a key of this scope can use the pages, which show all runs, and more than the access `submit` permits. */
export function mayBrowse(scope: KeyScope | null): boolean {
  return scope === null || (scope.access !== 'submit' && scope.runPrefix === null)
}

function namedIn(fields: RunFields, input: unknown): NamedRuns {
  const given = (typeof input === 'object' && input !== null ? input : {}) as Fields
  const values = (names: readonly string[] = []) =>
    names.flatMap((name) => given[name] ?? []).map(String)
  return { runs: values(fields.runs), batches: values(fields.batches) }
}
