import { type Actor, mayDo } from '../contract/roles.ts'

/** Matches a failure text that quotes a server or sandbox. Group 1: the service's own words, before the quotation. */
const UPSTREAM_TEXT =
  /\b(answered \d{3}[^:]*|answered NaN or an infinity|answered with something that is not JSON|answered with an HTML page|tokens are left for the reply|not an answer of a sandbox|the sandbox returned no verdict)(?:: | ")[\s\S]*$/

/** Fields whose text comes from trainers or functions and is never redacted. */
const NOT_OURS = new Set('prompt response groundTruth extraInfo rewardExtraInfo options'.split(' '))
/** Fields that describe failures. */
const DESCRIBING = new Set(['detail', 'cause', 'stateCause'])

/** Fields of an event's evidence that quote the server: its refusals and its output. */
const QUOTED_EVIDENCE = new Set(['message', 'refused', 'lastLines', 'program'])

const QUOTING = /^(samples\.(get|score)|rewards\.try|servers\.|fleet\.|overview\.|monitors\.)/

/** Whether the output of a procedure may quote a server. */
export function quotesServers(path: string): boolean {
  return QUOTING.test(path)
}

/**
 * Returns the output of a call. Unless the caller is an admin, error texts of reward-model servers and sandboxes are
 * removed, because they may contain addresses, paths, keys and texts of other runs.
 */
export function failuresFor<T>(actor: Pick<Actor, 'role'> | null, output: T): T {
  return actor !== null && mayDo(actor.role, 'admin') ? output : (withoutUpstreamText(output) as T)
}

function withoutQuotes(evidence: unknown): unknown {
  const fields = Object.entries(evidence ?? {})
  const kept = fields.filter(([key]) => !QUOTED_EVIDENCE.has(key))
  return kept.length === 0 ? null : Object.fromEntries(kept)
}

function withoutUpstreamText(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutUpstreamText)
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if (NOT_OURS.has(key)) return [key, inner]
      if (key === 'evidence') return [key, withoutQuotes(inner)]
      return DESCRIBING.has(key) && typeof inner === 'string'
        ? [key, inner.replace(UPSTREAM_TEXT, '$1')]
        : [key, withoutUpstreamText(inner)]
    }),
  )
}
