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
import { isBusy, notReady, notRecognised } from './probe-answers.ts'
import { wellFormed } from './sample-text.ts'

/** What a scorer may say in `reason` beside its `error`; anything else, and nothing, is a fault of its function. */
const ERROR_REASONS = ['function_error', 'timeout', 'non_finite', 'unparseable'] as const

/** Postgres and JSON.stringify run out of stack at some depth, and would fail for all the samples written with it. */
const MAX_EXTRA_DEPTH = 100

/** Whether a parsed JSON value has more than so many levels of lists and objects. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => isDeeper(inner, levels - 1))
}

/** The address is the whole of it: the path it ends in is the route. */
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
  }
  return { path: scorePath(target.basePath), body: jsonOfWellFormed({ samples: [sample] }) }
}

/** JSON whose texts every server can decode; the trainer's own values may hold lone surrogates at any depth. */
function jsonOfWellFormed(value: unknown): string {
  const text = JSON.stringify(value)
  // JSON.stringify writes lone surrogates as escapes, so a body without any needs no second look.
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
  const { score: told, error, ...extra } = item as Record<string, unknown>
  if (error !== undefined && error !== null) {
    const reason = ERROR_REASONS.find((word) => word === extra.reason) ?? 'function_error'
    return failure('client', reason, errorMessage(JSON.stringify({ error })))
  }
  const score = finiteScore(told, 'results[0].score')
  if (typeof score !== 'number') return score
  if (Object.keys(extra).length === 0) return { ok: true, score }
  if (isDeeper(extra, MAX_EXTRA_DEPTH)) {
    const detail = `results[0] is nested more than ${MAX_EXTRA_DEPTH} levels deep`
    return failure('corrupt', 'unparseable', detail)
  }
  return { ok: true, score, extra }
}

/** Such a scorer has one route and tells nothing of itself, so it is asked for the scores of no samples. */
async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const path = scorePath(context.basePath)
  const reply = await fetch(path, { method: 'POST', body: JSON.stringify({ samples: [] }) })
  if (isBusy(reply)) return notReady('POST', path, reply)
  if (!answersNoResults(reply.status, reply.bodyText)) {
    return notRecognised(
      `POST ${path} with {"samples":[]} answered ${reply.status}, not {"results":[]}: ${errorMessage(reply.bodyText)}`,
      'Give the address of the scoring route, its path included; it must answer {"results":[]} to {"samples":[]}.',
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

/** A scorer of one's own: POST {"samples":[…]} to its address, {"results":[{"score", …} | {"error"}]} back. */
export const http: Engine = {
  name: 'http',
  scores: true,
  chats: false,
  selfTested: false,
  templated: false,
  routes: [],
  labels: null,
  lifecycle: null,
  buildScoreRequest,
  parseScoreResponse,
  microBatch: null,
  readLoad: async () => null,
  probe,
}
