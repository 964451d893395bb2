import { failure, field, finiteScore, onlyElement, readJsonAnswer, scored } from './answer.ts'
import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineLoad,
  EngineRequest,
  EngineScore,
  EngineTarget,
  ProbeContext,
  ProbeResult,
  ResponseHeaders,
  ScoreInput,
} from './engine.ts'
import { labelIndex, noSuchLabel } from './labels.ts'
import { believableLoad, loadJson, metricSum, metricsText } from './load-answers.ts'
import {
  isBusy,
  jsonOrNull,
  listModels,
  noChatRoute,
  notReady,
  notRecognized,
  otherEngine,
  otherKind,
  positiveInt,
  routeTakesPosts,
  textOrNull,
} from './probe-answers.ts'
import { promptText, wellFormed } from './sample-text.ts'
import { rootOf } from './server-url.ts'

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  return {
    // /v1/embeddings is not used, because it normalizes: the reward of a head with one logit would always be +1 or −1.
    path: `${rootOf(target.basePath)}/rerank`,
    body: JSON.stringify({
      model: target.model ?? undefined,
      query: promptText(input),
      documents: [wellFormed(input.response)],
    }),
  }
}

function parseScoreResponse(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
  target?: EngineTarget,
): EngineScore | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  const only = onlyElement(field(answer.value, 'results'), 'results')
  if (!('item' in only)) return only
  const index = field(only.item, 'index')
  if (index !== 0) {
    const shown = JSON.stringify(index)
    return failure('corrupt', 'unparseable', `results[0].index is ${shown} for one text`)
  }
  const score = finiteScore(field(only.item, 'relevance_score'), 'results[0].relevance_score')
  return scored(
    typeof score === 'number' ? ofLabel(score, target?.label ?? null) : score,
    answer.value,
  )
}

/**
 * Returns the score of the named label. llama.cpp returns only label 0: the raw output of a head with one label, or the
 * softmax share of label 0 in a head with several labels (Qwen3). With two labels, label 1 has the remaining share.
 */
function ofLabel(score: number, label: string | null): number | EngineFailure {
  if (label === null || labelIndex(label) === 0) return score
  return labelIndex(label) === 1 && score >= 0 && score <= 1
    ? 1 - score
    : noSuchLabel(label, `a score of ${score}, which is not a probability of two labels`)
}

/** A warning for every reward model, because llama-server does not report whether the model has a chat template. */
const CONCATENATED =
  'llama.cpp gives the model the prompt and the response as plain concatenation, without a chat template, unless its GGUF has a `rerank` template.'

async function readLoad(fetch: EngineFetch, basePath: string): Promise<EngineLoad | null> {
  const base = rootOf(basePath)
  // /metrics is read first, because only it reports waiting requests. /metrics needs the option --metrics, while /slots
  // is on by default.
  const text = await metricsText(fetch, `${base}/metrics`)
  if (text !== null) {
    return believableLoad(
      metricSum(text, 'llamacpp:requests_processing'),
      metricSum(text, 'llamacpp:requests_deferred'),
    )
  }
  const slots = await loadJson(fetch, `${base}/slots`)
  if (!Array.isArray(slots) || slots.length === 0) return null
  let running = 0
  for (const slot of slots) {
    const processing = field(slot, 'is_processing')
    if (typeof processing !== 'boolean') return null
    if (processing) running++
  }
  return { running, waiting: 0 }
}

const MODEL_OWNER = 'llamacpp'

async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = rootOf(context.basePath)
  const models = await listModels(fetch, `${base}/v1/models`)
  if (!models.ok) return models
  const other = otherEngine('llamacpp', models.owner, context)
  if (other !== null) return other
  const props = await jsonOrNull(fetch, `${base}/props`)
  const slots = positiveInt(field(props, 'total_slots'))
  if (models.owner !== MODEL_OWNER && slots === null) {
    return notRecognized(
      'the server answers, but not as llama.cpp’s llama-server does',
      'Check that the URL is the root of a llama-server.',
    )
  }
  const judging = context.kind === 'generative'
  if (judging) {
    if (!(await routeTakesPosts(fetch, `${base}/v1/chat/completions`))) {
      return noChatRoute('llama.cpp')
    }
  } else {
    const refused = await refuseWithoutReranking(fetch, base)
    if (refused !== null) return refused
  }
  const ofSlot = field(field(props, 'default_generation_settings'), 'n_ctx')
  const trained = field(field(models.entry(context.model), 'meta'), 'n_ctx_train')
  return {
    ok: true,
    engine: 'llamacpp',
    models: models.ids,
    ignoresModelName: models.ids.length === 1,
    version: textOrNull(field(props, 'build_info')),
    // The context of one slot, which may be less than that of the model.
    maxModelLen: positiveInt(ofSlot) ?? positiveInt(trained),
    kind: judging ? 'generative' : 'discriminative',
    route: judging ? null : 'pair',
    maxConcurrent: slots,
    warnings: judging ? [] : [CONCATENATED],
  }
}

/**
 * Tries /rerank, which always exists. Without --reranking, the server answers 501; with it, the server answers 400 to
 * an empty query. Returns null if the server reranks.
 */
async function refuseWithoutReranking(
  fetch: EngineFetch,
  base: string,
): Promise<ProbeResult | null> {
  const path = `${base}/rerank`
  const reply = await fetch(path, { method: 'POST', body: '{}' })
  if (isBusy(reply)) return notReady('POST', path, reply)
  if (reply.status !== 501 && reply.status !== 404) return null
  return otherKind(
    `POST ${path} answered ${reply.status}: the server was started without --reranking`,
    'Start llama-server with --reranking and a reranker or reward model, or register it with "kind": "generative".',
  )
}

/**
 * llama.cpp's llama-server: POST /rerank returns label 0 of the rank head, raw or (Qwen3) after a softmax. Judges use
 * chat completions.
 */
export const llamacpp: Engine = {
  name: 'llamacpp',
  scores: true,
  chats: true,
  selfTested: true,
  templated: false,
  routes: ['pair'],
  labels: 'two',
  hasSlots: true,
  paths: new Set([
    '/rerank',
    '/v1/rerank',
    '/v1/embeddings',
    '/v1/chat/completions',
    '/v1/completions',
    '/tokenize',
    '/detokenize',
  ]),
  lifecycle: null,
  buildScoreRequest,
  parseScoreResponse,
  microBatch: null,
  readLoad,
  probe,
  modelOwner: MODEL_OWNER,
  detect: async (fetch, context, listed) => {
    if (!listed) return null
    const props = await jsonOrNull(fetch, `${rootOf(context.basePath)}/props`)
    return positiveInt(field(props, 'total_slots')) === null ? null : probe(fetch, context)
  },
}
