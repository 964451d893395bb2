import type { z } from 'zod'

type Issue = z.core.$ZodIssue

/** Describes the first three issues of a zod error, with paths such as `samples[3].uid`. */
export function describeIssues(error: z.ZodError): string {
  const parts = error.issues.slice(0, 3).map((issue) => describe(issue, []))
  const more = error.issues.length - parts.length
  return parts.join('; ') + (more > 0 ? `; and ${more} more` : '')
}

function describe(issue: Issue, before: PropertyKey[]): string {
  const path = [...before, ...issue.path]
  const where = written(path)
  if (issue.code === 'unrecognized_keys') {
    return `${where ? `${where}: ` : ''}unknown field ${issue.keys.map((k) => `"${k}"`).join(', ')}`
  }
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    return describeUnion(issue.errors, path)
  }
  return `${where || 'input'}: ${isMissing(issue) ? 'is missing' : issue.message}`
}

/**
 * Describes why a value matches no variant of a union. If a variant's problem is inside the value, only that problem is
 * described, because this variant is the closest match.
 */
function describeUnion(forms: Issue[][], path: PropertyKey[]): string {
  const inside = forms.find((issues) => issues.some((issue) => issue.path.length > 0))?.[0]
  if (inside) return describe(inside, path)
  const first = forms.flatMap((issues) => issues.slice(0, 1))
  const where = written(path) || 'input'
  if (first.every(isMissing)) return `${where}: is missing`
  return `${where}: ${first.map((issue) => issue.message).join(', or ')}`
}

function isMissing(issue: Issue): boolean {
  return issue.code === 'invalid_type' && /received undefined/.test(issue.message)
}

function written(path: PropertyKey[]): string {
  return path
    .map((p, i) => (typeof p === 'number' ? `[${p}]` : i === 0 ? String(p) : `.${String(p)}`))
    .join('')
}
