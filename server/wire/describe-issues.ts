import type { z } from 'zod'

/** The first issue of a zod error, its path written as a trainer would: `samples[3].uid`. */
export function describeIssues(error: z.ZodError): string {
  const parts = error.issues.slice(0, 3).map((issue) => {
    const path = issue.path
      .map((p, i) => (typeof p === 'number' ? `[${p}]` : i === 0 ? String(p) : `.${String(p)}`))
      .join('')
    if (issue.code === 'unrecognized_keys') {
      return `${path ? `${path}: ` : ''}unknown field ${issue.keys.map((k) => `"${k}"`).join(', ')}`
    }
    const missing = issue.code === 'invalid_type' && /received undefined/.test(issue.message)
    return `${path || 'input'}: ${missing ? 'is missing' : issue.message}`
  })
  const more = error.issues.length - parts.length
  return parts.join('; ') + (more > 0 ? `; and ${more} more` : '')
}
