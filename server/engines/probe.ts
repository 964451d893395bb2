import { field } from './answer.ts'
import type {
  EngineFetch,
  EngineName,
  ProbeContext,
  ProbeFacts,
  ProbeFailure,
  ProbeResult,
  ScoreRoute,
} from './engine.ts'
import { openChecked, ProbeStop } from './engine-fetch.ts'
import {
  jsonOrNull,
  listModels,
  notRecognized,
  otherKind,
  positiveInt,
  ROUTER_ADDRESS_OWNER,
  routerAddress,
  textField,
} from './probe-answers.ts'
import { engineOf } from './registry.ts'
import { checkServerUrl, rootOf } from './server-url.ts'
import { teiModelType } from './tei.ts'

export { type OpenFetch, type OpenFetchOptions, openFetch, ProbeStop } from './engine-fetch.ts'

export interface ProbeRequest {
  url: string
  engine: 'auto' | EngineName
  apiKey: string | null
  /** Time limit of the whole probe. SGLang's routes may take over 1 s while it is busy, so use at least 3,000. */
  timeoutMs: number
  /** The requested model; null: any. */
  model?: string | null
  /** The intended use; null or absent: any. A server of another kind is refused (`other_kind`). */
  kind?: 'discriminative' | 'generative' | null
  /** The route named at registration; no other one is tried. */
  route?: ScoreRoute | null
  /** The label named at registration, by index or name. */
  label?: string | null
  /** Whether a chat template was given at registration. */
  templated?: boolean
  /** The result of an earlier probe. */
  known?: ProbeContext['known']
}

export interface ProbedServer extends ProbeFacts {
  /** The normalized URL. */
  url: string
  /** The requested model, or the first that the server lists; null: the server lists none. */
  model: string | null
  durationMs: number
}

/**
 * Probes a server. It must be reachable without a redirect, speak the engine's protocol (`auto` detects it), serve the
 * requested model and fit its intended use. Never throws for problems of the server, and sends nothing to a forbidden
 * URL.
 */
export async function probeServer(request: ProbeRequest): Promise<ProbedServer | ProbeFailure> {
  const checked = checkServerUrl(request.url)
  if (!checked.ok) return checked
  const startedAt = performance.now()
  const { apiKey, timeoutMs } = request
  const open = openChecked(checked, apiKey, { timeoutMs, totalMs: timeoutMs })
  const context: ProbeContext = {
    basePath: open.basePath,
    model: request.model ?? null,
    kind: request.kind ?? null,
    route: request.route ?? null,
    label: request.label ?? null,
    templated: request.templated ?? false,
    known: request.known ?? null,
  }
  try {
    const result =
      request.engine === 'auto'
        ? await detect(open.fetch, context)
        : await engineOf(request.engine).probe(open.fetch, context)
    if (!result.ok) return result
    const unfit = unfitFor(result, context.kind ?? null)
    if (unfit !== null) return unfit
    const model = modelServed(result, context.model)
    if (typeof model === 'object' && model !== null) return model
    const durationMs = Math.round(performance.now() - startedAt)
    return { ...result, url: checked.url, model, durationMs }
  } catch (error) {
    if (error instanceof ProbeStop) return error.failure
    throw error
  } finally {
    open.close()
  }
}

/**
 * Detects the engine by the owner in /v1/models, or by a route that only one engine has. Engines without either are
 * tried last: custom scorers with an empty list of samples, OpenRLHF with a short text.
 */
async function detect(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = rootOf(context.basePath)
  const models = await listModels(fetch, `${base}/v1/models`)
  // A busy or loading server would fail all further requests too, and must not be reported as unknown.
  if (!models.ok && models.cause === 'not_ready') return models
  if (models.ok && models.owner === ROUTER_ADDRESS_OWNER) return routerAddress()
  const listed = models.ok && models.ids.length > 0
  const found =
    (models.ok ? engineOfOwner(models.owner) : null) ?? (await engineOfRoutes(fetch, base, listed))
  if (found !== null) return engineOf(found).probe(fetch, context)
  if (listed) {
    const chats = await engineOf('openai').probe(fetch, context)
    if (chats.ok) return chats
  }
  const scorer = await ownScorer(fetch, context)
  if (scorer !== null) return scorer
  const rewards = await engineOf('openrlhf').probe(fetch, context)
  if (rewards.ok || rewards.reason === 'server_unreachable') return rewards
  return notRecognized(
    'the server answers, but not as any supported engine: vLLM, SGLang, text-embeddings-inference, llama.cpp, OpenAI, OpenRLHF, custom HTTP scorers',
    'Set "engine", or check that the URL is the root of a reward-model server.',
  )
}

/** Probes for a custom HTTP scorer; null: the server is not one. Rejects if the server does not answer. */
async function ownScorer(fetch: EngineFetch, context: ProbeContext): Promise<ProbeFacts | null> {
  try {
    const scorer = await engineOf('http').probe(fetch, context)
    return scorer.ok ? scorer : null
  } catch (error) {
    if (error instanceof ProbeStop && error.failure.reason !== 'server_unreachable') return null
    throw error
  }
}

function engineOfOwner(owner: string | null): EngineName | null {
  return owner === 'vllm' || owner === 'sglang' || owner === 'llamacpp' ? owner : null
}

async function engineOfRoutes(
  fetch: EngineFetch,
  base: string,
  listed: boolean,
): Promise<EngineName | null> {
  if (teiModelType(await jsonOrNull(fetch, `${base}/info`)) !== null) return 'tei'
  // All other engines list their models.
  if (!listed) return null
  if (field(await jsonOrNull(fetch, `${base}/model_info`), 'model_path') !== undefined) {
    return 'sglang'
  }
  if ((await textField(fetch, `${base}/version`, 'version')) !== null) return 'vllm'
  const props = await jsonOrNull(fetch, `${base}/props`)
  return positiveInt(field(props, 'total_slots')) !== null ? 'llamacpp' : null
}

/** Returns a failure if the server does not fit its intended use. */
function unfitFor(
  facts: ProbeFacts,
  kind: 'discriminative' | 'generative' | null,
): ProbeFailure | null {
  const { name, chats, scores } = engineOf(facts.engine)
  if (kind === 'generative' && !chats) {
    return otherKind(
      `a server of engine "${name}" returns scores and does not generate text`,
      'Register it with "kind": "discriminative".',
    )
  }
  if (kind === 'discriminative' && (!scores || facts.kind === 'generative')) {
    return otherKind(
      'the server generates text and returns no scores',
      facts.engine === 'sglang'
        ? 'Start SGLang with --is-embedding, or register it with "kind": "generative" as a judge.'
        : 'Register it with "kind": "generative" as a judge, or serve a reward model.',
    )
  }
  return null
}

/** Whether the server ignores the model name of requests, so that a pool can have any name. */
function takesAnyName(facts: ProbeFacts): boolean {
  return facts.engine === 'tei' || (facts.engine === 'llamacpp' && facts.models.length === 1)
}

function modelServed(facts: ProbeFacts, wanted: string | null): string | null | ProbeFailure {
  if (wanted === null) return facts.models[0] ?? null
  if (facts.models.length === 0 || facts.models.includes(wanted) || takesAnyName(facts)) {
    return wanted
  }
  return {
    ok: false,
    reason: 'model_not_served',
    cause: 'unknown_model',
    message: `the server does not serve "${wanted}"; it serves ${facts.models.map((id) => `"${id}"`).join(', ')}`,
    hint: 'Leave model out, or give one of those.',
  }
}
