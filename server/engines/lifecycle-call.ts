import { errorMessage } from './answer.ts'
import type { EngineFetch } from './engine.ts'

/**
 * Requests sleep or wake. `missing` tells the reader of the error what to do if the server has no such route.
 * @throws Error with the server's answer, unless the server confirms
 */
export async function lifecyclePost(
  fetch: EngineFetch,
  path: string,
  missing: string,
  body?: string,
): Promise<void> {
  const init = body === undefined ? { method: 'POST' as const } : { method: 'POST' as const, body }
  const reply = await fetch(path, init)
  if (reply.status >= 200 && reply.status < 300) return
  if (reply.status === 404 || reply.status === 405) {
    throw new Error(`POST ${path} answered ${reply.status}: ${missing}`)
  }
  throw new Error(`POST ${path} answered ${reply.status}: ${errorMessage(reply.bodyText)}`)
}
