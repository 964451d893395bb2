import { changesOf } from '../contract/audit-changes.ts'
import type { Actor } from '../contract/roles.ts'
import type { Modules } from './context.ts'
import { type Fields, MUTATIONS } from './roles.ts'

/** A mutation to record. */
interface Call {
  modules: Modules
  actor: Actor
  path: string
  input(): Promise<unknown>
}

/**
 * Runs a mutation and records it in the audit log if it succeeds. Where roles.ts says how, the changed object is read
 * before and after.
 */
export async function audit<R extends { ok: boolean; data?: unknown }>(
  { modules, actor, path, input }: Call,
  next: () => Promise<R>,
): Promise<R> {
  const row = MUTATIONS[path]
  if (row?.audit === null) return next()
  const audited = row?.audit ?? { target: () => '' }
  const given = fieldsOf(await input().catch(() => null))
  // An object that does not exist yet is null.
  const look = async () => (await audited.look?.(modules, given).catch(() => null)) ?? null
  const before = await look()
  const result = await next()
  if (!result.ok) return result
  const after = audited.look === undefined ? null : await look()
  await modules.audit.note({
    actor: actor.name,
    role: actor.role,
    action: path,
    target: audited.target(given, fieldsOf(result.data)).slice(0, 256),
    changes: before === null && after === null ? changesOf(null, given) : changesOf(before, after),
  })
  return result
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Fields)
    : {}
}
