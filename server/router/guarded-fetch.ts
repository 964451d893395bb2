import { Agent, fetch as undiciFetch } from 'undici'
import { guardedConnector } from '../engines/egress.ts'

/** The same connect timeout as for reward-model servers. */
const CONNECT_TIMEOUT_MS = 2_000

let agent: Agent | undefined

/**
 * `fetch` for URLs that users configure. Connections to IP addresses that REWARDOPS_EGRESS_ALLOW does not allow fail.
 * Callers set their own time limits.
 */
export const guardedFetch: typeof fetch = (input, init) => {
  agent ??= new Agent({
    connect: guardedConnector(CONNECT_TIMEOUT_MS),
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  // Node's `fetch` comes from another undici version, which cannot use this agent.
  const options = { ...init, dispatcher: agent } as Parameters<typeof undiciFetch>[1]
  return undiciFetch(input as string, options) as unknown as Promise<Response>
}
