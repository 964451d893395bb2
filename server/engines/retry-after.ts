import type { ResponseHeaders } from './engine.ts'

/** All three formats of an HTTP date start with the day's name. */
const HTTP_DATE = /^\s*(?:mon|tue|wed|thu|fri|sat|sun)/i

/**
 * Returns the delay that a server requests, in ms from `nowEpochMs`; null: none. Reads `retry-after-ms`,
 * `x-ms-retry-after-ms` and `retry-after` (seconds, or an HTTP date).
 */
export function retryAfterMs(headers: ResponseHeaders, nowEpochMs: number): number | null {
  const exact = first(headers['retry-after-ms']) ?? first(headers['x-ms-retry-after-ms'])
  if (exact !== undefined) {
    const ms = Number(exact)
    if (exact.trim() !== '' && Number.isFinite(ms) && ms >= 0) return ms
  }
  const after = first(headers['retry-after'])
  if (after === undefined || after.trim() === '') return null
  const seconds = Number(after)
  if (Number.isFinite(seconds)) return seconds >= 0 ? seconds * 1000 : null
  // Date.parse reads "2 s" as a day of 2001.
  const date = HTTP_DATE.test(after) ? Date.parse(after) : Number.NaN
  return Number.isNaN(date) ? null : Math.max(0, date - nowEpochMs)
}

function first(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}
