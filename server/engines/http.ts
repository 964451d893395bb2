import { errorMessage, failure, field, finiteScore, onlyElement, readJsonAnswer } from './answer.ts'
import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineRequest,
  EngineScore,
  EngineTarget,
  ProbeContext,
  ProbeResult,
  ResponseHeaders,
  ScoreInput,
} from './engine.ts'
import { ProbeStop } from './engine-fetch.ts'
import { isBusy, notReady, notRecognized } from './probe-answers.ts'
import { wellFormed } from './sample-text.ts'

/**
 * Values of `reason` that a scorer may add to its `error`. Any other value, or no value, counts as `function_error`.
 */
const ERROR_REASONS = ['function_error', 'timeout', 'non_finite', 'unparseable'] as const

/**
 * Maximum nesting of a scorer's extra fields. Deeply nested values overflow the stack of Postgres or JSON.stringify,
 * and all samples of the same write would then fail.
 */
const MAX_EXTRA_DEPTH = 100

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1))
}

function scorePath(basePath: string | undefined): string {
  return basePath === undefined || basePath === '' ? '/' : basePath
}

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  const sample = {
    dataSource: input.dataSource ?? null,
    solutionStr: input.response,
    groundTruth: input.groundTruth ?? null,
    extraInfo: input.extraInfo ?? {},
    prompt: input.prompt,
    ...(input.messages === undefined ? {} : { messages: input.messages }),
  }
  return { path: scorePath(target.basePath), body: jsonOfWellFormed({ samples: [sample] }) }
}

/** Writes JSON that every server can decode: lone surrogates, at any depth, become U+FFFD. */
function jsonOfWellFormed(value: unknown): string {
  const text = JSON.stringify(value)
  // JSON.stringify writes lone surrogates as escapes, so a body without escapes has none.
  if (!/\\ud[89a-f]/.test(text)) return text
  return JSON.stringify(value, (_key, part) => (typeof part === 'string' ? wellFormed(part) : part))
}

function parseScoreResponse(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
): EngineScore | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  const only = onlyElement(field(answer.value, 'results'), 'results')
  if (!('item' in only)) return only
  const { item } = only
  if (typeof item !== 'object' || item === null || Array.isArray(item)) {
    return failure('corrupt', 'unparseable', 'results[0] is not an object')
  }
  const { score: value, error, ...extra } = item as Record<string, unknown>
  if (error !== undefined && error !== null) {
    const reason = ERROR_REASONS.find((word) => word === extra.reason) ?? 'function_error'
    return failure('client', reason, errorMessage(JSON.stringify({ error })))
  }
  const score = finiteScore(value, 'results[0].score')
  if (typeof score !== 'number') return score
  if (Object.keys(extra).length === 0) return { ok: true, score }
  if (isDeeper(extra, MAX_EXTRA_DEPTH)) {
    const detail = `results[0] is nested more than ${MAX_EXTRA_DEPTH} levels deep`
    return failure('corrupt', 'unparseable', detail)
  }
  return { ok: true, score, extra }
}

/** Probes with an empty list of samples, because a custom scorer has only one route and does not identify itself. */
async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const path = scorePath(context.basePath)
  const reply = await fetch(path, { method: 'POST', body: JSON.stringify({ samples: [] }) })
  if (isBusy(reply)) return notReady('POST', path, reply)
  if (!answersNoResults(reply.status, reply.bodyText)) {
    return notRecognized(
      `POST ${path} with {"samples":[]} answered ${reply.status}, not {"results":[]}: ${errorMessage(reply.bodyText)}`,
      'Give the URL of the scoring route, its path included; it must answer {"results":[]} to {"samples":[]}.',
    )
  }
  return {
    ok: true,
    engine: 'http',
    models: [],
    version: null,
    maxModelLen: null,
    kind: 'discriminative',
    route: null,
    warnings: [],
  }
}

function answersNoResults(status: number, bodyText: string): boolean {
  if (status < 200 || status >= 300) return false
  try {
    const results = field(JSON.parse(bodyText), 'results')
    return Array.isArray(results) && results.length === 0
  } catch {
    return false
  }
}

/**
 * Resolves to null if the server does not answer like a custom scorer.
 * @throws ProbeStop if the server does not answer
 */
async function detect(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult | null> {
  try {
    const result = await probe(fetch, context)
    return result.ok ? result : null
  } catch (error) {
    if (error instanceof ProbeStop && error.failure.reason !== 'server_unreachable') return null
    throw error
  }
}

/** A custom HTTP scorer: POST {"samples":[…]} to its URL returns {"results":[{"score", …} | {"error"}]}. */
export const http: Engine = {
  name: 'http',
  scores: true,
  chats: false,
  selfTested: false,
  templated: false,
  routes: [],
  labels: null,
  paths: new Set(),
  lifecycle: null,
  buildScoreRequest,
  parseScoreResponse,
  microBatch: null,
  readLoad: async () => null,
  probe,
  modelOwner: null,
  detect,
}
