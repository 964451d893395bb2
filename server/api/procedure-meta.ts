import type { Role } from '../contract/roles.ts'
import type { Modules } from './context.ts'

/**
 * The argument of `procedure.meta()`: the access rules and the audit entry of a procedure. Without `meta()`, a mutation
 * requires the role admin and is recorded, and keys with a run prefix or the access `submit` cannot call the procedure.
 */
export interface ProcedureMeta {
  /** Minimum role of the caller. Default: `admin` for mutations, `viewer` for queries and subscriptions. */
  role?: Role
  /**
   * The audit entry of a mutation. Null if the mutation is not recorded, because it changes nothing or is routine work.
   * Default: recorded without a target.
   */
  audit?: Audited | null
  /**
   * The input fields that name runs. They are checked if the caller's key has a run prefix. Default: keys with a run
   * prefix cannot call the procedure.
   */
  runFields?: RunFields | null
  /** Allows keys with the access `submit` to call the procedure. */
  forSubmitKeys?: true
  /** The procedure needs no key, because it is called before signing in. Only `openProcedure` sets this. */
  isOpen?: true
}

/**
 * The input fields that name runs, batches or samples. At least one of them must be given, and all given ones must be
 * within the run prefix of the key. A procedure that neither reads nor changes data of a run has null instead.
 */
export interface RunFields {
  runs?: readonly string[]
  batches?: readonly string[]
}

export const byRun: RunFields = { runs: ['run'] }
export const byBatch: RunFields = { batches: ['batchId'] }
export const byFilter: RunFields = { runs: ['run'], batches: ['batch'] }

export interface Audited {
  target(input: Fields, output: Fields): string
  /**
   * Reads the changed object. It is called before and after the mutation, and the fields that differ are recorded.
   * Input fields that the object does not have are recorded as given.
   */
  look?(modules: Modules, input: Fields): Promise<unknown>
  /** Input fields that identify the object or the caller and change nothing. Only used with `look`. */
  refs?: readonly string[]
  /** Input fields that are recorded without their values, in addition to the fields with secret names. */
  secrets?: readonly string[]
}

export type Fields = Readonly<Record<string, unknown>>

export const named =
  (...fields: string[]) =>
  (input: Fields, output: Fields): string => {
    for (const from of [input, output]) {
      for (const field of fields) {
        const value = from[field]
        if (typeof value === 'string' && value !== '') return value
      }
    }
    return ''
  }

export const nameOrId: Audited['target'] = (input, output) =>
  named('name')(output, input) || named('id')(input, output)
