import type { AuditChange } from '../contract/audit.ts'
import type { Actor } from '../contract/roles.ts'
import type { Modules } from './context.ts'
import type { Audited, Fields } from './procedure-meta.ts'

interface Call {
  modules: Modules
  actor: Actor
  path: string
  /** The data to record besides the caller. If undefined, the entry has no target. */
  audited: Audited | undefined
  input(): Promise<unknown>
}

/**
 * Runs a mutation and records it in the audit log if it succeeds. The `look` function of `audited`, if present, reads
 * the changed object before and after the mutation.
 */
export async function audit<R extends { ok: boolean; data?: unknown }>(
  { modules, actor, path, audited = { target: () => '' }, input }: Call,
  next: () => Promise<R>,
): Promise<R> {
  const given = fieldsOf(await input().catch(() => null))
  // Null if the object does not exist yet or cannot be read.
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
    changes: [
      ...changesOf(before, after),
      ...changesOf(null, unseen(audited, given, before, after)),
    ],
  })
  return result
}

/**
 * Returns the input fields that are neither fields of the changed object nor listed in `refs`, with secrets masked.
 * Returns all input fields if the object was not read.
 */
function unseen(
  { refs = [], secrets = [] }: Audited,
  given: Fields,
  before: unknown,
  after: unknown,
): Fields {
  const isRead = before !== null || after !== null
  const seen = new Set(
    isRead ? [...refs, ...Object.keys({ ...fields(before), ...fields(after) })] : [],
  )
  return Object.fromEntries(
    Object.entries(given)
      .filter(([field]) => !seen.has(field))
      .map(([field, value]) => [field, secrets.includes(field) && value !== null ? '•••' : value]),
  )
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Fields)
    : {}
}

/** Names of fields whose values are never stored. */
const SECRET = /key|secret|token$|password|authorization|^env$|^headers$|webhook/i
/** Maximum length of a recorded value in characters. A chat template can have 60,000. */
const MAX_CHARS = 200
const MAX_ELEMENTS = 20

/** Returns the top-level fields that differ between two values, as JSON without secrets. Null stands for no value. */
export function changesOf(before: unknown, after: unknown): AuditChange[] {
  const from = fields(before)
  const to = fields(after)
  const changes: AuditChange[] = []
  for (const field of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const was = JSON.stringify(from[field] ?? null)
    const is = JSON.stringify(to[field] ?? null)
    if (was === is) continue
    changes.push({ field, from: printed(field, from[field]), to: printed(field, to[field]) })
  }
  return changes
}

function fields(value: unknown): Record<string, unknown> {
  if (value === null || value === undefined) return {}
  return typeof value === 'object' && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : { value }
}

function printed(field: string, value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (SECRET.test(field)) return '"•••"'
  const text = JSON.stringify(withoutSecrets(value))
  return text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS)}…`
}

function withoutSecrets(value: unknown): unknown {
  if (typeof value === 'string') return withoutCredentials(value)
  if (Array.isArray(value)) return value.slice(0, MAX_ELEMENTS).map(withoutSecrets)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      SECRET.test(name) && one !== null ? '•••' : withoutSecrets(one),
    ]),
  )
}

function withoutCredentials(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return text
  const url = new URL(text)
  url.username = ''
  url.password = ''
  url.search = ''
  url.hash = ''
  return url.href
}
