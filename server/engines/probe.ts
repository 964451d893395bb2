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
  notRecognised,
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

/** What to probe. */
export interface ProbeRequest {
  url: string
  engine: 'auto' | EngineName
  apiKey: string | null
  /** For the whole probe. SGLang's routes may take over 1 s while it is busy: give 3,000 or more. */
  timeoutMs: number
  /** The model one wants served; null: whatever the server has. */
  model?: string | null
  /** What it is wanted for; absent: whatever the server can. A server that cannot is refused (`other_kind`). */
  kind?: 'discriminative' | 'generative' | null
  /** The route named at registration: no other is asked. */
  route?: ScoreRoute | null
  /** The label named at registration, by index or name. */
  label?: string | null
  /** A chat template was given at registration. */
  templated?: boolean
  /** What an earlier probe found. */
  known?: ProbeContext['known']
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

/**
 * Asks a server what it is: reachable without a redirect, speaks the engine's protocol (`auto` finds out which), serves
 * the asked-for model and can be used as what it is wanted for. Never throws for the server's failings, and sends
 * nothing to a forbidden address.
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
 * Which engine answers: the owner in /v1/models, else a route only one of them has. Last those that tell nothing of
 * themselves and are asked for scores: one's own scorer for those of no samples, OpenRLHF's for one of a short text.
 */
async function detect(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = rootOf(context.basePath)
  const models = await listModels(fetch, `${base}/v1/models`)
  // A server busy or still loading would fail every other question too: say so rather than "unknown".
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
  return notRecognised(
    'the server answers, but not as any engine that is spoken: vLLM, SGLang, text-embeddings-inference, llama.cpp, OpenAI, OpenRLHF, a scorer of one’s own',
    'Name its engine, or check that the address is the root of a reward-model server.',
  )
}

/** A scorer of one's own, if that is what answers; what else a server makes of such a POST says nothing yet. */
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
  // The rest list their models.
  if (!listed) return null
  if (field(await jsonOrNull(fetch, `${base}/model_info`), 'model_path') !== undefined) {
    return 'sglang'
  }
  if ((await textField(fetch, `${base}/version`, 'version')) !== null) return 'vllm'
  const props = await jsonOrNull(fetch, `${base}/props`)
  return positiveInt(field(props, 'total_slots')) !== null ? 'llamacpp' : null
}

/** What a server cannot be used for, if that is what it is wanted for. */
function unfitFor(
  facts: ProbeFacts,
  kind: 'discriminative' | 'generative' | null,
): ProbeFailure | null {
  const { name, chats, scores } = engineOf(facts.engine)
  if (kind === 'generative' && !chats) {
    return otherKind(
      `a server of engine "${name}" gives scores and does not generate`,
      'Register it with "kind": "discriminative".',
    )
  }
  if (kind === 'discriminative' && (!scores || facts.kind === 'generative')) {
    return otherKind(
      'the server generates and gives no scores',
      facts.engine === 'sglang'
        ? 'Start SGLang with --is-embedding, or register it with "kind": "generative" as a judge.'
        : 'Register it with "kind": "generative" as a judge, or serve a reward model.',
    )
  }
  return null
}

/** True where the server passes over the name in a request, so that a pool may call the model what it likes. */
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
