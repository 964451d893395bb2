import { type Actor, mayDo } from '../contract/roles.ts'

/** Matches a failure text that quotes a server or sandbox. Group 1: the service's own words, before the quotation. */
const UPSTREAM_TEXT =
  /\b(answered \d{3}[^:]*|answered NaN or an infinity|answered with something that is not JSON|answered with an HTML page|tokens are left for the reply|not an answer of a sandbox|the sandbox returned no verdict)(?:: | ")[\s\S]*$/

/** Matches the target of a redirect, which may contain addresses and tokens. */
const REDIRECT = /\b(answered \d{3}, a redirect) to [\s\S]*$/

/** Fields whose text comes from trainers or functions and is never redacted. */
const NOT_OURS = new Set('prompt response groundTruth extraInfo rewardExtraInfo options'.split(' '))
const DESCRIBING = new Set(['detail', 'cause', 'stateCause'])

/** Fields of an event's evidence that quote the server: its refusals and its output. */
const QUOTED_EVIDENCE = new Set(['message', 'refused', 'lastLines', 'program'])

const QUOTING = /^(samples\.(get|score)|rewards\.try|servers\.|fleet\.|overview\.|monitors\.)/

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
  if (kept.length === 0) return null
  return Object.fromEntries(kept.map(([key, value]) => [key, ownWords(value)]))
}

function ownWords(value: unknown): unknown {
  if (typeof value !== 'string') return value
  return value.replace(REDIRECT, '$1').replace(UPSTREAM_TEXT, '$1')
}

function withoutUpstreamText(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutUpstreamText)
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if (NOT_OURS.has(key)) return [key, inner]
      if (key === 'evidence') return [key, withoutQuotes(inner)]
      return DESCRIBING.has(key) && typeof inner === 'string'
        ? [key, ownWords(inner)]
        : [key, withoutUpstreamText(inner)]
    }),
  )
}
