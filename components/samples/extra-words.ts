import type { ExtraFilter } from '../../server/contract/sample-filter.ts'

/** A reward extra info filter as a short text. */
export function extraWords(filter: ExtraFilter): string {
  const { key } = filter
  if (filter.is === 'present') return `${key} is present`
  if (filter.is === 'number') {
    const { min, max } = filter
    if (min !== undefined && max !== undefined) return `${min} ≤ ${key} ≤ ${max}`
    if (min !== undefined) return `${key} ≥ ${min}`
    return max === undefined ? `${key} is a number` : `${key} ≤ ${max}`
  }
  return filter.is === 'boolean' ? `${key} = ${filter.value}` : `${key} = “${filter.value}”`
}
