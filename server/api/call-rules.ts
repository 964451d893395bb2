import type { Actor, Role } from '../contract/roles.ts'
import { mayDo } from '../contract/roles.ts'
import { RewardOpsError } from '../errors.ts'
import type { ProcedureMeta, RunFields } from './procedure-meta.ts'

/** The access rules of a procedure or of an endpoint outside tRPC. */
export interface CallRules {
  role: Role
  /** True if the call is refused for keys with the access `read`. */
  isChange: boolean
  /** Whether keys with the access `submit` may make the call. */
  forSubmitKeys: boolean
  /**
   * The input fields that name runs. They are checked if the caller's key has a run prefix. Undefined: the call is
   * refused for keys with a run prefix. Null: the call neither reads nor changes data of a run.
   */
  runFields: RunFields | null | undefined
}

/** Returns the access rules of a procedure. {@link ProcedureMeta} describes the defaults. */
export function rulesOf(
  type: 'query' | 'mutation' | 'subscription',
  { role, forSubmitKeys, runFields }: ProcedureMeta = {},
): CallRules {
  const needed = role ?? (type === 'mutation' ? 'admin' : 'viewer')
  return {
    role: needed,
    isChange: type === 'mutation' && needed !== 'viewer',
    forSubmitKeys: forSubmitKeys === true,
    runFields,
  }
}

/** @throws RewardOpsError `forbidden_role` */
export function checkRole(actor: Actor, needed: Role, what: string): void {
  if (mayDo(actor.role, needed)) return
  throw new RewardOpsError(
    'forbidden_role',
    `${what} needs the role ${needed}, and the key "${actor.name}" has the role ${actor.role}.`,
  )
}
