import { changesOf } from '../contract/audit-changes.ts'
import type { Actor } from '../contract/roles.ts'
import type { Modules } from './context.ts'
import { type Fields, MUTATIONS } from './roles.ts'

/** A mutation as the audit list sees it. */
interface Call {
  modules: Modules
  actor: Actor
  path: string
  input(): Promise<unknown>
}

/**
 * Makes a call and notes it when it did something. What is changed is looked at before and after, where roles.ts says how;
 * a call that was refused is not noted.
 */
export async function audit<R extends { ok: boolean; data?: unknown }>(
  { modules, actor, path, input }: Call,
  next: () => Promise<R>,
): Promise<R> {
  const row = MUTATIONS[path]
  if (row?.audit === null) return next()
  const audited = row?.audit ?? { target: () => '' }
  const given = fieldsOf(await input().catch(() => null))
  // What is not there yet looks like nothing.
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
