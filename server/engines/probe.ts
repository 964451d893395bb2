import { Client } from 'undici'
import { clip, field } from './answer.ts'
import type {
  EngineFetch,
  EngineName,
  EngineReply,
  ProbeContext,
  ProbeFacts,
  ProbeFailure,
  ProbeResult,
} from './engine.ts'
import { FORBIDDEN_ADDRESS_CODE, safeLookup } from './link-local.ts'
import { jsonOrNull, listModels, textField } from './probe-answers.ts'
import { engineOf } from './registry.ts'
import { checkServerUrl } from './server-url.ts'

/** What to probe. */
export interface ProbeRequest {
  url: string
  engine: 'auto' | EngineName
  apiKey: string | null
  /** For the whole probe. SGLang's routes may take over 1 s while it is busy: give 3,000 or more. */
  timeoutMs: number
  /** The model one wants served; null: whatever the server has. */
  model?: string | null
}

/** A server that can be used. */
export interface ProbedServer extends ProbeFacts {
  /** Normalised address. */
  url: string
  /** The asked-for model, else the first the server names, else null (the server does not tell). */
  model: string | null
  /** How long the probe took. */
  durationMs: number
}

/** Largest answer a probe reads, in bytes; SGLang's /server_info is the longest honest one, some tens of KB. */
const ANSWER_LIMIT_BYTES = 1 << 20
/** Longest wait for a connection, in ms. */
const CONNECT_TIMEOUT_MS = 2_000

/** Ends a probe from inside a fetch: the engines need not know of redirects or keys. */
class ProbeStop extends Error {
  readonly failure: ProbeFailure
  constructor(failure: ProbeFailure) {
    super(failure.message)
    this.failure = failure
  }
}

/**
 * Asks a server what it is: reachable without a redirect, speaks the engine's protocol (`auto` finds out which), serves
 * the asked-for model. Never throws for the server's failings, and sends nothing to a forbidden address.
 */
export async function probeServer(request: ProbeRequest): Promise<ProbedServer | ProbeFailure> {
  const checked = checkServerUrl(request.url)
  if (!checked.ok) return checked
  const startedAt = performance.now()
  const client = new Client(checked.origin, {
    connect: { timeout: CONNECT_TIMEOUT_MS, lookup: safeLookup },
    allowH2: false,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: ANSWER_LIMIT_BYTES,
  })
  const signal = AbortSignal.timeout(Math.max(1, request.timeoutMs))
  const fetch = fetchThrough(client, request.apiKey, signal)
  const context: ProbeContext = { basePath: checked.basePath, model: request.model ?? null }
  try {
    const result =
      request.engine === 'auto'
        ? await detect(fetch, context)
        : await engineOf(request.engine).probe(fetch, context)
    if (!result.ok) return result
    const model = modelServed(result, context.model)
    if (typeof model === 'object' && model !== null) return model
    const durationMs = Math.round(performance.now() - startedAt)
    return { ...result, url: checked.url, model, durationMs }
  } catch (error) {
    return stopOf(error, checked.origin, request.timeoutMs)
  } finally {
    client.destroy().catch(() => {})
  }
}

function fetchThrough(client: Client, apiKey: string | null, signal: AbortSignal): EngineFetch {
  return async (path, init = { method: 'GET' }): Promise<EngineReply> => {
    const headers: Record<string, string> = { accept: 'application/json' }
    if (init.body !== undefined) headers['content-type'] = 'application/json'
    if (apiKey !== null) headers.authorization = `Bearer ${apiKey}`
    const { method, body } = init
    const response = await client.request({ path, method, headers, signal, body: body ?? null })
    const bodyText = await response.body.text()
    const status = response.statusCode
    const where = `${method} ${path} answered ${status}`
    if (status >= 300 && status < 400) {
      const to = response.headers.location
      const target = typeof to === 'string' ? `to ${clip(to)}` : 'without a Location'
      throw new ProbeStop({
        ok: false,
        reason: 'server_redirects',
        cause: 'redirect',
        message: `${where}, a redirect ${target}`,
        hint: 'Register the address it redirects to: redirects are never followed.',
      })
    }
    if (status === 401 || status === 403) {
      throw new ProbeStop({
        ok: false,
        reason: 'server_unreachable',
        cause: 'key_refused',
        message: `${where}: the server refused ${apiKey === null ? 'a call without a key' : 'the key'}`,
        hint: 'Give the key the server was started with as apiKey.',
      })
    }
    return { status, headers: response.headers, bodyText }
  }
}

/**
 * Which engine answers: /v1/models names its owner with vLLM and SGLang; a server without it that answers an OpenRLHF
 * query with rewards is one of those.
 */
async function detect(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = context.basePath.endsWith('/v1') ? context.basePath.slice(0, -3) : context.basePath
  const models = await listModels(fetch, `${base}/v1/models`)
  if (models.ok && models.owner !== null) {
    if (models.owner === 'vllm') return engineOf('vllm').probe(fetch, context)
    if (models.owner === 'sglang') return engineOf('sglang').probe(fetch, context)
    if (models.owner === 'llamacpp') return unsupported('llama.cpp')
  }
  // A server busy or still loading would fail every other question too: say so rather than "unknown".
  if (!models.ok && models.cause === 'not_ready') return models
  if (models.ok && models.ids.length > 0) {
    if (field(await jsonOrNull(fetch, `${base}/model_info`), 'model_path') !== undefined) {
      return engineOf('sglang').probe(fetch, context)
    }
    if ((await textField(fetch, `${base}/version`, 'version')) !== null) {
      return engineOf('vllm').probe(fetch, context)
    }
  }
  if (field(await jsonOrNull(fetch, `${base}/info`), 'model_type') !== undefined) {
    return unsupported('text-embeddings-inference')
  }
  const rewards = await engineOf('openrlhf').probe(fetch, context)
  if (rewards.ok || rewards.reason === 'server_unreachable') return rewards
  return {
    ok: false,
    reason: 'server_not_recognised',
    cause: 'unknown_server',
    message: 'the server answers, but not as vLLM, SGLang or an OpenRLHF reward server does',
    hint: 'Name its engine, or check that the address is the root of a reward-model server.',
  }
}

function unsupported(name: string): ProbeFailure {
  return {
    ok: false,
    reason: 'server_not_recognised',
    cause: 'other_engine',
    message: `the server is ${name}, whose protocol is not spoken yet`,
    hint: 'Serve the model with vLLM, SGLang or an OpenRLHF reward server.',
  }
}

function modelServed(facts: ProbeFacts, wanted: string | null): string | null | ProbeFailure {
  if (wanted === null) return facts.models[0] ?? null
  if (facts.models.length === 0 || facts.models.includes(wanted)) return wanted
  return {
    ok: false,
    reason: 'model_not_served',
    cause: 'unknown_model',
    message: `the server does not serve "${wanted}"; it serves ${facts.models.map((id) => `"${id}"`).join(', ')}`,
    hint: 'Leave model out, or give one of those.',
  }
}

function stopOf(error: unknown, origin: string, timeoutMs: number): ProbeFailure {
  if (error instanceof ProbeStop) return error.failure
  const { name, code, message } = error as NodeJS.ErrnoException
  if (code === FORBIDDEN_ADDRESS_CODE) {
    return {
      ok: false,
      reason: 'forbidden_url',
      cause: 'link_local',
      message,
      hint: 'Give an address whose name resolves to no link-local address.',
    }
  }
  const unreachable = (cause: ProbeFailure['cause'], detail: string): ProbeFailure => ({
    ok: false,
    reason: 'server_unreachable',
    cause,
    message: `${origin} ${clip(detail)}`,
    hint: 'Start the server and try again, or register it with "ifUnreachable": "keep" while it loads.',
  })
  if (name === 'TimeoutError')
    return unreachable('timeout', `did not answer within ${timeoutMs} ms`)
  if (code === 'UND_ERR_CONNECT_TIMEOUT') {
    return unreachable('timeout', `did not take a connection within ${CONNECT_TIMEOUT_MS} ms`)
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    return unreachable('dns', `is not a known host (${code})`)
  }
  if (isTlsCode(code)) return unreachable('tls', `failed the TLS handshake (${code}: ${message})`)
  return unreachable('connection', `cannot be reached (${code ?? name}: ${message})`)
}

/** True for the codes of certificate and handshake failures. */
function isTlsCode(code: string | undefined): boolean {
  return (
    code !== undefined &&
    /^(?:ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)|^EPROTO$/.test(code)
  )
}
