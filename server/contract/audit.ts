import { z } from 'zod'
import { name } from './fields.ts'
import type { Role } from './roles.ts'

/** The input of `audit.list`: a filter and a page. */
export const AuditInput = z.strictObject({
  /** The name of a key. */
  actor: name(100).optional(),
  /** A procedure such as `servers.register`, or a namespace such as `servers.`. */
  action: name(100).optional(),
  cursor: z
    .string()
    .regex(/^\d{1,18}$/, 'must be the nextCursor of the previous page')
    .nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type AuditInput = z.infer<typeof AuditInput>

/** A changed field. Values are shortened JSON without secrets. */
export interface AuditChange {
  field: string
  /** Null if there was no value or it is unknown. */
  from: string | null
  to: string | null
}

/** An entry of the audit log: one change. */
export interface AuditEntryDto {
  id: string
  at: string
  actor: string
  role: Role
  /**
   * The procedure, the action of the retention policy, or `keys.refused` for an IP address that sent too many wrong
   * keys.
   */
  action: string
  target: string
  changes: AuditChange[]
}

/** The output of `audit.list`. `actors` and `actions` are those of the newest 5,000 changes. */
export interface AuditPageDto {
  items: AuditEntryDto[]
  nextCursor: string | null
  actors: string[]
  actions: string[]
}
