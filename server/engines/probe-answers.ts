import { errorMessage, field, looksLikeHtml } from './answer.ts'
import type { EngineFetch, EngineReply, ProbeFailure } from './engine.ts'

/** What /v1/models says, or why it says nothing usable. */
export type ModelList =
  | {
      ok: true
      ids: string[]
      /** `owned_by` of the first model; null where it is not told. */
      owner: string | null
      /** `max_model_len` of the named model, else of the first. */
      maxModelLen(model: string | null): number | null
    }
  | ProbeFailure

/**
 * Reads an OpenAI-style model list. A server without the route (404, 405) gives an empty list: it may be a small
 * server of someone's own that speaks only the scoring route.
 */
export async function listModels(fetch: EngineFetch, path: string): Promise<ModelList> {
  const reply = await fetch(path)
  if (reply.status === 404 || reply.status === 405) {
    return { ok: true, ids: [], owner: null, maxModelLen: () => null }
  }
  if (reply.status < 200 || reply.status >= 300) return notReady(path, reply)
  const data = field(parsed(reply), 'data')
  if (!Array.isArray(data)) {
    return {
      ok: false,
      reason: 'server_not_recognised',
      cause: 'not_json',
      message: `GET ${path} answered ${looksLikeHtml(reply.bodyText) ? 'an HTML page' : 'something'} that is not a list of models`,
      hint: 'Check that the address is the root of a reward-model server, not of a page or a proxy before it.',
    }
  }
  const entries = data.filter((entry) => typeof field(entry, 'id') === 'string')
  const owner = field(entries[0], 'owned_by')
  return {
    ok: true,
    ids: entries.map((entry) => field(entry, 'id') as string),
    owner: typeof owner === 'string' ? owner : null,
    maxModelLen(model) {
      const entry = entries.find((candidate) => field(candidate, 'id') === model) ?? entries[0]
      const length = field(entry, 'max_model_len')
      return typeof length === 'number' ? length : null
    },
  }
}

function notReady(path: string, reply: EngineReply): ProbeFailure {
  return {
    ok: false,
    reason: 'server_unreachable',
    cause: 'not_ready',
    message: `GET ${path} answered ${reply.status}: ${errorMessage(reply.bodyText)}`,
    hint: 'Wait until the server has loaded its model, or register it with "ifUnreachable": "keep".',
  }
}

/** A server of another engine than the one named. */
export function otherEngine(named: string, found: string, engine: string): ProbeFailure {
  return {
    ok: false,
    reason: 'server_not_recognised',
    cause: 'other_engine',
    message: `the server is ${found}, not ${named}`,
    hint: `Register it with "engine": "${engine}", or "auto".`,
  }
}

function parsed(reply: EngineReply): unknown {
  try {
    return JSON.parse(reply.bodyText)
  } catch {
    return undefined
  }
}

/** The JSON of a GET, null where the route is missing or says something else. */
export async function jsonOrNull(fetch: EngineFetch, path: string): Promise<unknown> {
  const reply = await fetch(path)
  if (reply.status < 200 || reply.status >= 300) return null
  return parsed(reply) ?? null
}

/** One text field of a GET's JSON, null where there is none. */
export async function textField(
  fetch: EngineFetch,
  path: string,
  name: string,
): Promise<string | null> {
  const value = field(await jsonOrNull(fetch, path), name)
  return typeof value === 'string' && value !== '' ? value : null
}

/** True when a POST route exists: FastAPI answers 405 to a GET of it, and 404 where there is none. */
export async function routeExists(fetch: EngineFetch, path: string): Promise<boolean> {
  return (await fetch(path)).status === 405
}
