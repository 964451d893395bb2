import { errorMessage, field, looksLikeHtml } from './answer.ts'
import type { EngineFetch, EngineReply, ProbeFailure } from './engine.ts'
import { ProbeStop } from './engine-fetch.ts'

/** What /v1/models says, or why it says nothing usable. */
export type ModelList =
  | {
      ok: true
      ids: string[]
      /** `owned_by` of the first model; null where it is not told. */
      owner: string | null
      /** `max_model_len` of the named model, else of the first. */
      maxModelLen(model: string | null): number | null
      /** The named model's entry, else the first. */
      entry(model: string | null): unknown
    }
  | ProbeFailure

/**
 * Reads an OpenAI-style model list. A server without the route (404, 405, 501 from Python's http.server, another 4xx)
 * gives an empty list: it may be a small server of someone's own that speaks only the scoring route.
 */
export async function listModels(fetch: EngineFetch, path: string): Promise<ModelList> {
  const reply = await fetch(path)
  if (isMissing(reply)) {
    return { ok: true, ids: [], owner: null, maxModelLen: () => null, entry: () => undefined }
  }
  if (reply.status < 200 || reply.status >= 300) return notReady('GET', path, reply)
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
  const entryOf = (model: string | null): unknown =>
    entries.find((candidate) => field(candidate, 'id') === model) ?? entries[0]
  return {
    ok: true,
    ids: entries.map((entry) => field(entry, 'id') as string),
    owner: typeof owner === 'string' ? owner : null,
    maxModelLen: (model) => positiveInt(field(entryOf(model), 'max_model_len')),
    entry: entryOf,
  }
}

/** True for answers of a server that has no such route. 408 and 429 are those of one that is busy. */
function isMissing({ status }: EngineReply): boolean {
  return (status >= 400 && status < 500 && status !== 408 && status !== 429) || status === 501
}

/** True for answers of a server that is loading or full, or of a proxy before one that is down. */
export function isBusy({ status }: EngineReply): boolean {
  return status === 429 || (status >= 502 && status <= 504)
}

/** A server that answers, but not yet with what is asked of it. */
export function notReady(method: string, path: string, reply: EngineReply): ProbeFailure {
  return {
    ok: false,
    reason: 'server_unreachable',
    cause: 'not_ready',
    message: `${method} ${path} answered ${reply.status}: ${errorMessage(reply.bodyText)}`,
    hint: 'Wait until the server has loaded its model, or register it with "ifUnreachable": "keep".',
  }
}

/** Who owns the models that a router address of ours lists. */
export const ROUTER_ADDRESS_OWNER = 'rewardops'

/** A router address is no reward-model server: its calls would come back to it. */
export function routerAddress(): ProbeFailure {
  return notRecognised(
    'this is the router address of a rewardops service, not a reward-model server',
    'Register the reward-model servers themselves.',
  )
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

/** A server that does not speak the engine it was named as, without telling what it is. */
export function notRecognised(message: string, hint: string): ProbeFailure {
  return { ok: false, reason: 'server_not_recognised', cause: 'unknown_server', message, hint }
}

/** A server that cannot do what it is wanted for. */
export function otherKind(message: string, hint: string): ProbeFailure {
  return { ok: false, reason: 'server_not_recognised', cause: 'other_kind', message, hint }
}

/** A server wanted for judging that has no chat route. */
export function noChatRoute(server: string): ProbeFailure {
  return otherKind(
    `the server is ${server} without /v1/chat/completions: its model does not generate`,
    'Register it with "kind": "discriminative", or serve a model that generates.',
  )
}

function parsed(reply: EngineReply): unknown {
  try {
    return JSON.parse(reply.bodyText)
  } catch {
    return undefined
  }
}

/** A GET of something a server need not have: a refused key means that it is not for us, not that the probe ends. */
async function fetchOptional(fetch: EngineFetch, path: string): Promise<EngineReply | null> {
  try {
    return await fetch(path)
  } catch (error) {
    if (error instanceof ProbeStop && error.failure.reason === 'key_refused') return null
    throw error
  }
}

/** The JSON of a GET, null where the route is missing, guarded by another key, or says something else. */
export async function jsonOrNull(fetch: EngineFetch, path: string): Promise<unknown> {
  const reply = await fetchOptional(fetch, path)
  if (reply === null || reply.status < 200 || reply.status >= 300) return null
  return parsed(reply) ?? null
}

/** One text field of a GET's JSON, null where there is none. */
export async function textField(
  fetch: EngineFetch,
  path: string,
  name: string,
): Promise<string | null> {
  return textOrNull(field(await jsonOrNull(fetch, path), name))
}

/** A text that is not empty, else null. */
export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** A whole number above 0, else null. */
export function positiveInt(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : null
}

/** True when a POST route exists: FastAPI answers 405 to a GET of it, and 404 where there is none. */
export async function routeExists(fetch: EngineFetch, path: string): Promise<boolean> {
  return (await fetchOptional(fetch, path))?.status === 405
}

/**
 * True when a POST route does something, for servers that answer 404 to a GET of it: an empty object is refused by the
 * route (400, 422) where it is there, and answered 404, 405 or 501 where it is not. Rejects for a refused key.
 */
export async function routeTakesPosts(fetch: EngineFetch, path: string): Promise<boolean> {
  const { status } = await fetch(path, { method: 'POST', body: '{}' })
  return status !== 404 && status !== 405 && status !== 501
}
