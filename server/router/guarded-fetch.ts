import { Agent, fetch as undiciFetch } from 'undici'
import { safeLookup } from '../engines/link-local.ts'

/** Connect timeout in ms, equal to that of reward-model servers. */
const CONNECT_TIMEOUT_MS = 2_000

/** Shared by the process so that connections are kept between calls. */
let agent: Agent | undefined

/**
 * `fetch` for addresses entered by users. A name that resolves to a link-local or metadata address is refused at every
 * connection. `checkServerUrl` checks the address itself. Time limits are the caller's.
 */
export const guardedFetch: typeof fetch = (input, init) => {
  agent ??= new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS, lookup: safeLookup },
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  // undici's own `fetch`: Node's is of another version with an incompatible dispatcher interface.
  const options = { ...init, dispatcher: agent } as Parameters<typeof undiciFetch>[1]
  return undiciFetch(input as string, options) as unknown as Promise<Response>
}
