import { Agent, fetch as undiciFetch } from 'undici'
import { safeLookup } from '../engines/link-local.ts'

/** Longest wait for a connection, in ms: as for the servers of reward models. */
const CONNECT_TIMEOUT_MS = 2_000

/** One for the process: connections are kept between calls. */
let agent: Agent | undefined

/**
 * `fetch` for services whose address came from a user: a name that resolves to a link-local or metadata address is not
 * called, whatever it resolved to before. The address itself is checked by `checkServerUrl`. Time limits are the caller's.
 */
export const guardedFetch: typeof fetch = (input, init) => {
  agent ??= new Agent({
    connect: { timeout: CONNECT_TIMEOUT_MS, lookup: safeLookup },
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  // undici's own: Node's is of another version, whose dispatchers have another interface.
  const options = { ...init, dispatcher: agent } as Parameters<typeof undiciFetch>[1]
  return undiciFetch(input as string, options) as unknown as Promise<Response>
}
