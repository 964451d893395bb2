import { z } from 'zod'
import type { Role } from './roles.ts'

/** `audit.list`: who changed what, newest first. */
export const AuditInput = z.strictObject({
  actor: z.string().min(1).max(100).optional(),
  /** A procedure such as `servers.register`, or a namespace such as `servers.`. */
  action: z.string().min(1).max(100).optional(),
  cursor: z
    .string()
    .regex(/^\d{1,18}$/, 'must be nextCursor of the page before')
    .nullish(),
  limit: z.int().min(1).max(200).default(50),
})
export type AuditInput = z.infer<typeof AuditInput>

/** One field that a change touched; values as JSON, shortened, secrets left out. */
export interface AuditChange {
  field: string
  /** Null: there was none, or it is not known. */
  from: string | null
  to: string | null
}

/** One change. */
export interface AuditEntryDto {
  id: string
  at: string
  actor: string
  role: Role
  /** The procedure, or what the policy did. */
  action: string
  target: string
  changes: AuditChange[]
}

/** `audit.list`; `actors` and `actions` are what there is to choose from, of the newest 5,000 changes. */
export interface AuditPageDto {
  items: AuditEntryDto[]
  nextCursor: string | null
  actors: string[]
  actions: string[]
}
