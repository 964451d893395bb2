import type { AuditChange } from './audit.ts'

/** Fields whose value is never written down. */
const SECRET = /key|secret|token$|password|authorization|^env$|^headers$|webhook/i
/** Longer values are cut: a chat template is 4 kB and says nothing in a list. */
const MAX_CHARS = 200
const MAX_FIELDS = 20

/**
 * The fields in which two looks at something differ, as JSON without secrets; `null`: there was nothing. Fields are those
 * of the outermost object.
 */
export function changesOf(before: unknown, after: unknown): AuditChange[] {
  const from = fields(before)
  const to = fields(after)
  const changes: AuditChange[] = []
  for (const field of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const was = JSON.stringify(from[field] ?? null)
    const is = JSON.stringify(to[field] ?? null)
    if (was === is) continue
    changes.push({ field, from: told(field, from[field]), to: told(field, to[field]) })
    if (changes.length === MAX_FIELDS) break
  }
  return changes
}

function fields(value: unknown): Record<string, unknown> {
  if (value === null || value === undefined) return {}
  return typeof value === 'object' && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : { value }
}

function told(field: string, value: unknown): string | null {
  if (value === undefined || value === null) return null
  if (SECRET.test(field)) return '"•••"'
  const text = JSON.stringify(withoutSecrets(value))
  return text.length <= MAX_CHARS ? text : `${text.slice(0, MAX_CHARS)}…`
}

function withoutSecrets(value: unknown): unknown {
  if (typeof value === 'string') return withoutCredentials(value)
  if (Array.isArray(value)) return value.slice(0, MAX_FIELDS).map(withoutSecrets)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      SECRET.test(name) && one !== null ? '•••' : withoutSecrets(one),
    ]),
  )
}

/** An address without what is before its @ and behind its ?. */
function withoutCredentials(text: string): string {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return text
  const url = new URL(text)
  url.username = ''
  url.password = ''
  url.search = ''
  url.hash = ''
  return url.href
}
