import { ENGINE_NAMES, ENGINES, type EngineName } from '../contract/engines.ts'
import type {
  EngineFetch,
  ProbeContext,
  ProbeFacts,
  ProbeFailure,
  ProbeResult,
  ScoreRoute,
} from './engine.ts'
import { openChecked, ProbeStop } from './engine-fetch.ts'
import {
  listModels,
  notRecognized,
  otherKind,
  ROUTER_ADDRESS_OWNER,
  routerAddress,
} from './probe-answers.ts'
import { DETECTION_ORDER, engineOf } from './registry.ts'
import { checkServerUrl, rootOf } from './server-url.ts'

export { type OpenFetch, type OpenFetchOptions, openFetch, ProbeStop } from './engine-fetch.ts'

export interface ProbeRequest {
  url: string
  engine: 'auto' | EngineName
  apiKey: string | null
  /** Time limit of the whole probe. SGLang's routes may take over 1 s while it is busy, so use at least 3,000 ms. */
  timeoutMs: number
  /** The requested model; null means any. */
  model?: string | null
  /** The intended use; null or absent means any. A server of another kind is refused (`other_kind`). */
  kind?: 'discriminative' | 'generative' | null
  /** The route named at registration. No other route is tried. */
  route?: ScoreRoute | null
  label?: string | null
  templated?: boolean
  known?: ProbeContext['known']
}

export interface ProbedServer extends ProbeFacts {
  /** The normalized URL. */
  url: string
  /** The requested model, or the first that the server lists; null if the server lists none. */
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
    engineOfOwner: ENGINE_OF_OWNER,
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

const ENGINE_OF_OWNER = new Map(
  DETECTION_ORDER.flatMap(({ name, modelOwner }) =>
    modelOwner === null ? [] : [[modelOwner, name] as const],
  ),
)

async function detect(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const models = await listModels(fetch, `${rootOf(context.basePath)}/v1/models`)
  // A busy or loading server would fail all further requests too, and must not be reported as unknown.
  if (!models.ok && models.cause === 'not_ready') return models
  if (models.ok && models.owner === ROUTER_ADDRESS_OWNER) return routerAddress()
  const owner = models.ok ? context.engineOfOwner.get(models.owner) : undefined
  if (owner !== undefined) return engineOf(owner).probe(fetch, context)
  const listed = models.ok && models.ids.length > 0
  for (const engine of DETECTION_ORDER) {
    const result = await engine.detect(fetch, context, listed)
    if (result !== null) return result
  }
  return notRecognized(
    `the server answers, but not as any supported engine: ${ENGINE_NAMES.map((name) => ENGINES[name].servers).join(', ')}`,
    'Set "engine", or check that the URL is the root of a reward-model server.',
  )
}

function unfitFor(
  facts: ProbeFacts,
  kind: 'discriminative' | 'generative' | null,
): ProbeFailure | null {
  const { name, chats, scores, generatesHint } = engineOf(facts.engine)
  if (kind === 'generative' && !chats) {
    return otherKind(
      `a server of engine "${name}" returns scores and does not generate text`,
      'Register it with "kind": "discriminative".',
    )
  }
  if (kind === 'discriminative' && (!scores || facts.kind === 'generative')) {
    return otherKind(
      'the server generates text and returns no scores',
      generatesHint ?? 'Register it with "kind": "generative" as a judge, or serve a reward model.',
    )
  }
  return null
}

function modelServed(facts: ProbeFacts, wanted: string | null): string | null | ProbeFailure {
  if (wanted === null) return facts.models[0] ?? null
  if (facts.models.length === 0 || facts.models.includes(wanted) || facts.ignoresModelName) {
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
