import type { IncomingHttpHeaders } from 'node:http'
import { isPolicyName, POLICY_NAMES } from '../../contract/pools.ts'
import { RewardOpsError } from '../../errors.ts'
import type { PolicyName } from '../../router/policies/policy.ts'

/** Maximum wait for an answer to begin, in ms. Longer deadlines are shortened to this. */
export const MAX_WAIT_MS = 600_000
/** Maximum number of characters in the name of a group or run. Names are kept in memory while the call waits. */
const MAX_NAME_CHARS = 256

export interface RouteOptions {
  group?: string
  run: string
  urgent?: boolean
  priority?: number
  /** Deadline from the request's arrival, in ms. */
  deadlineMs?: number
  policy?: PolicyName
}

/**
 * Reads `x-group-id`, `x-run-id`, `x-priority` (high, normal, low or a number), `x-deadline-ms` and `x-route-policy`.
 * @throws RewardOpsError `invalid_input` that names the header
 */
export function routeOptions(headers: IncomingHttpHeaders): RouteOptions {
  const options: RouteOptions = { run: name(headers, 'x-run-id') ?? 'proxy' }
  const group = name(headers, 'x-group-id')
  if (group !== undefined) options.group = group
  const priority = headers['x-priority']
  if (priority !== undefined) setPriority(options, String(priority).trim().toLowerCase())
  const deadline = headers['x-deadline-ms']
  if (deadline !== undefined) {
    const ms = Number(deadline)
    if (!(ms > 0) || String(deadline).trim() === '') {
      throw invalid('x-deadline-ms', String(deadline), 'a number of milliseconds above 0')
    }
    options.deadlineMs = Math.min(ms, MAX_WAIT_MS)
  }
  const policy = headers['x-route-policy']
  if (policy !== undefined) {
    if (!isPolicyName(policy)) {
      throw invalid('x-route-policy', String(policy), `one of ${POLICY_NAMES.join(', ')}`)
    }
    options.policy = policy
  }
  return options
}

function setPriority(options: RouteOptions, word: string): void {
  if (word === 'high') options.urgent = true
  else if (word === 'low') options.priority = -1
  else if (word !== 'normal') {
    const value = Number(word)
    if (word === '' || !Number.isFinite(value)) {
      throw invalid('x-priority', word, 'high, normal, low or a number (below 0: backfill)')
    }
    options.priority = value
  }
}

function name(headers: IncomingHttpHeaders, header: string): string | undefined {
  const value = headers[header]
  if (value === undefined || value === '') return undefined
  const text = String(value)
  if (text.length > MAX_NAME_CHARS) {
    throw invalid(header, text, `a name of at most ${MAX_NAME_CHARS} characters`)
  }
  return text
}

function invalid(header: string, value: string, wanted: string): RewardOpsError {
  return new RewardOpsError(
    'invalid_input',
    `The header ${header} is "${value.slice(0, 60)}"; it must be ${wanted}.`,
    { hint: `Correct the header ${header}, or leave it out.` },
  )
}
