import { ENGINES, type EngineName } from '../contract/engines.ts'
import { errorMessage, field, looksLikeHtml } from './answer.ts'
import type { EngineFetch, EngineReply, ProbeContext, ProbeFailure } from './engine.ts'
import { ProbeStop } from './engine-fetch.ts'

export type ModelList =
  | {
      ok: true
      ids: string[]
      /** `owned_by` of the first model; null if not reported. */
      owner: string | null
      /** `max_model_len` of the named model, or of the first. */
      maxModelLen(model: string | null): number | null
      /** The entry of the named model, or the first. */
      entry(model: string | null): unknown
    }
  | ProbeFailure

/**
 * Reads an OpenAI-style model list. A server without the route (any 4xx except 408 and 429, or 501 from Python's
 * http.server) has an empty list, because it may be a custom server with only a scoring route.
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
      reason: 'server_not_recognized',
      cause: 'not_json',
      message: `GET ${path} answered ${looksLikeHtml(reply.bodyText) ? 'an HTML page' : 'something'} that is not a list of models`,
      hint: 'Check that the URL is the root of a reward-model server, not of a page or a proxy before it.',
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

/** Whether an answer means that the server lacks the route. 408 and 429 do not: they mean that the server is busy. */
function isMissing({ status }: EngineReply): boolean {
  return (status >= 400 && status < 500 && status !== 408 && status !== 429) || status === 501
}

/** Whether the server is loading or full, or the server behind a proxy is down. */
export function isBusy({ status }: EngineReply): boolean {
  return status === 429 || (status >= 502 && status <= 504)
}

export function notReady(method: string, path: string, reply: EngineReply): ProbeFailure {
  return {
    ok: false,
    reason: 'server_unreachable',
    cause: 'not_ready',
    message: `${method} ${path} answered ${reply.status}: ${errorMessage(reply.bodyText)}`,
    hint: 'Wait until the server has loaded its model, or register it with "ifUnreachable": "keep".',
  }
}

export const ROUTER_ADDRESS_OWNER = 'rewardops'

/** Returns the failure for a URL that is the router address of a rewardops service: the service would call itself. */
export function routerAddress(): ProbeFailure {
  return notRecognized(
    'this is the router address of a rewardops service, not a reward-model server',
    'Register the reward-model servers themselves.',
  )
}

/** Returns a failure if the owner of a server's models belongs to another engine than the named one; otherwise null. */
export function otherEngine(
  named: EngineName,
  owner: string | null,
  { engineOfOwner }: ProbeContext,
): ProbeFailure | null {
  const found = engineOfOwner.get(owner)
  if (found === undefined || found === named) return null
  return {
    ok: false,
    reason: 'server_not_recognized',
    cause: 'other_engine',
    message: `the server is ${ENGINES[found].label}, not ${ENGINES[named].label}`,
    hint: `Register it with "engine": "${found}", or "auto".`,
  }
}

export function notRecognized(message: string, hint: string): ProbeFailure {
  return { ok: false, reason: 'server_not_recognized', cause: 'unknown_server', message, hint }
}

export function otherKind(message: string, hint: string): ProbeFailure {
  return { ok: false, reason: 'server_not_recognized', cause: 'other_kind', message, hint }
}

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

/** Requests an optional route. A refused key counts as a missing route and does not end the probe. */
async function fetchOptional(fetch: EngineFetch, path: string): Promise<EngineReply | null> {
  try {
    return await fetch(path)
  } catch (error) {
    if (error instanceof ProbeStop && error.failure.reason === 'key_refused') return null
    throw error
  }
}

/** Reads JSON by GET. Resolves to null if the route is missing, needs another key, or does not return JSON. */
export async function jsonOrNull(fetch: EngineFetch, path: string): Promise<unknown> {
  const reply = await fetchOptional(fetch, path)
  if (reply === null || reply.status < 200 || reply.status >= 300) return null
  return parsed(reply) ?? null
}

export async function textField(
  fetch: EngineFetch,
  path: string,
  name: string,
): Promise<string | null> {
  return textOrNull(field(await jsonOrNull(fetch, path), name))
}

export function textOrNull(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

export function positiveInt(value: unknown): number | null {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : null
}

/** Whether a POST route exists. FastAPI answers a GET of a POST route with 405, and of a missing route with 404. */
export async function routeExists(fetch: EngineFetch, path: string): Promise<boolean> {
  return (await fetchOptional(fetch, path))?.status === 405
}

/**
 * Whether a POST route exists, for servers that answer 404 to a GET of a POST route. An existing route refuses an empty
 * object (400, 422). A missing route answers 404, 405 or 501. Rejects for a refused key.
 */
export async function routeTakesPosts(fetch: EngineFetch, path: string): Promise<boolean> {
  const { status } = await fetch(path, { method: 'POST', body: '{}' })
  return status !== 404 && status !== 405 && status !== 501
}
