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
import type { CallRules } from './call-rules.ts'
import type { Fields, RunFields } from './procedure-meta.ts'

/**
 * Checks whether the access and the run prefix of a key permit a call, as far as possible without the call's input.
 * `what` names a procedure or a surface (an endpoint outside tRPC).
 * @throws RewardOpsError `forbidden_scope`
 */
export function checkAccess(caller: ScopedCaller, what: string, rules: CallRules): void {
  const { name, scope } = caller
  if (scope === null) return
  if (scope.access === 'submit' && !rules.forSubmitKeys) {
    throw new RewardOpsError(
      'forbidden_scope',
      `${what} is refused: the key "${name}" only submits and reads results.`,
    )
  }
  if (scope.access === 'read' && rules.isChange) {
    throw new RewardOpsError('forbidden_scope', `${what} is refused: the key "${name}" only reads.`)
  }
  if (scope.runPrefix !== null && rules.runFields === undefined) {
    throw outsideRuns(caller, `${what} is not limited to one run.`)
  }
}

/**
 * Tells whether a key with this scope may make a call. `runs` means yes, but only for runs within the key's run prefix.
 */
export function callableIn(scope: KeyScope, what: string, rules: CallRules): 'yes' | 'runs' | 'no' {
  try {
    checkAccess({ name: '', scope }, what, rules)
  } catch {
    return 'no'
  }
  const isBound = scope.runPrefix !== null && (what === 'images' || rules.runFields !== null)
  return isBound ? 'runs' : 'yes'
}

export class Scopes {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  /**
   * Checks that the caller's scope permits a call and the runs in its input. Called before the input is validated.
   * @throws RewardOpsError `forbidden_scope`, `batch_not_found`
   */
  async check(caller: ScopedCaller, what: string, rules: CallRules, input: unknown): Promise<void> {
    if (caller.scope === null) return
    checkAccess(caller, what, rules)
    if (rules.runFields) await checkRuns(this.#db, caller, what, namedIn(rules.runFields, input))
  }

  /** Refuses an image that is in no run within the caller's run prefix. @throws RewardOpsError `image_not_found` */
  checkImage(caller: ScopedCaller, sha256: string): Promise<void> {
    return checkImage(this.#db, caller, sha256)
  }
}

/** True if a key with this scope can use the pages. The pages show all runs and need more than the access `submit`. */
export function mayBrowse(scope: KeyScope | null): boolean {
  return scope === null || (scope.access !== 'submit' && scope.runPrefix === null)
}

function namedIn(fields: RunFields, input: unknown): NamedRuns {
  const given = (typeof input === 'object' && input !== null ? input : {}) as Fields
  const values = (names: readonly string[] = []) =>
    names.flatMap((name) => given[name] ?? []).map(String)
  return { runs: values(fields.runs), batches: values(fields.batches) }
}
