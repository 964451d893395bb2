import {
  clip,
  failure,
  field,
  finiteScore,
  onlyDatum,
  readJsonAnswer,
  readMicroBatchData,
  scored,
} from './answer.ts'
import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineLifecycle,
  EngineLoad,
  EngineRequest,
  EngineScore,
  EngineTarget,
  MicroBatchProtocol,
  ProbeContext,
  ProbeResult,
  ResponseHeaders,
  ScoreInput,
  TokenProtocol,
} from './engine.ts'
import { findRoute } from './find-route.ts'
import { labelScore } from './labels.ts'
import { lifecyclePost } from './lifecycle-call.ts'
import { believableLoad, metricSum, metricsText } from './load-answers.ts'
import {
  jsonOrNull,
  listModels,
  noChatRoute,
  otherEngine,
  routeExists,
  textField,
} from './probe-answers.ts'
import { promptText, sampleMessages, sampleText, wellFormed } from './sample-text.ts'
import { rootOf } from './server-url.ts'
import { offsetsOf } from './token-offsets.ts'
import { type Version, versionBefore } from './version.ts'

/** /classify has accepted `messages` since 2025-11-14. 0.12.0 is the first release that certainly accepts them. */
const MESSAGES_SINCE: Version = [0, 12, 0]
/** /score has accepted `queries` and `documents` since January 2026. Older servers accept `text_1` and `text_2`. */
const QUERIES_SINCE: Version = [0, 16, 0]
/** From this release on, and before {@link USE_ACTIVATION_SINCE}, `activation: false` requests raw scores. */
const ACTIVATION_SINCE: Version = [0, 10, 1]
/**
 * From this release on, `use_activation: false` requests raw scores. Later servers silently ignore the older name and
 * return sigmoids.
 */
const USE_ACTIVATION_SINCE: Version = [0, 11, 1]

/** Whether the server is older than a version. A server of unknown version counts as current. */
function before(target: EngineTarget, version: Version): boolean {
  return target.version !== null && versionBefore(target.version, version)
}

/**
 * Requests raw or activated scores. Only one of the two parameter names is sent, because servers of late 2025 read the
 * older one first and with the opposite meaning.
 */
function activation(target: EngineTarget): Record<string, boolean> {
  const activated = target.activated === true
  const oldWord = !before(target, ACTIVATION_SINCE) && before(target, USE_ACTIVATION_SINCE)
  return target.version !== null && oldWord
    ? { activation: activated }
    : { use_activation: activated }
}

/** Whether samples are sent as text. Otherwise the server renders conversations itself, one per request. */
function asText(target: EngineTarget): boolean {
  return target.chatTemplate != null || target.plainText === true || before(target, MESSAGES_SINCE)
}

function textOf(input: ScoreInput, target: EngineTarget): string {
  const { chatTemplate } = target
  // Older servers always add a BOS. For newer servers, the request disables this, so the template's own BOS is sent.
  return chatTemplate != null && !before(target, MESSAGES_SINCE)
    ? chatTemplate.renderSample(input)
    : sampleText(input, target)
}

function wholeText(input: ScoreInput, target: EngineTarget): Record<string, unknown> {
  return asText(target) ? { input: textOf(input, target) } : { messages: sampleMessages(input) }
}

function pair(input: ScoreInput, target: EngineTarget): Record<string, unknown> {
  const query = promptText(input)
  const document = wellFormed(input.response)
  return before(target, QUERIES_SINCE)
    ? { text_1: query, text_2: document }
    : { queries: query, documents: document }
}

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  if (target.route !== 'pair') return wholeTextRequest(wholeText(input, target), target)
  const model = target.model ?? undefined
  return {
    path: `${rootOf(target.basePath)}/score`,
    body: JSON.stringify({ model, ...pair(input, target), ...activation(target) }),
  }
}

function wholeTextRequest(what: Record<string, unknown>, target: EngineTarget): EngineRequest {
  const base = rootOf(target.basePath)
  const model = target.model ?? undefined
  const raw = activation(target)
  const add_special_tokens = specialTokens(target)
  if (target.route === 'token') {
    const task = 'token_classify'
    const body = { model, ...what, task, ...raw, add_special_tokens, encoding_format: 'float' }
    return { path: `${base}/pooling`, body: JSON.stringify(body) }
  }
  return {
    path: `${base}/classify`,
    body: JSON.stringify({ model, ...what, ...raw, add_special_tokens }),
  }
}

/**
 * The value of `add_special_tokens`. By default, the server adds special tokens to `input`, so a text with a template's
 * BOS would get a second BOS. Plain text needs the special tokens.
 */
function specialTokens(target: EngineTarget): false | undefined {
  return target.plainText === true && target.chatTemplate == null ? undefined : false
}

function parseScoreResponse(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
  target?: EngineTarget,
): EngineScore | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  const only = onlyDatum(answer.value)
  return 'item' in only ? datumScored(only.item, 0, answer.value, target?.label) : only
}

/**
 * Reads the score of entry `at`. `answer` is null for a response with several entries, because its token count covers
 * all of them.
 */
function datumScored(
  datum: unknown,
  at: number,
  answer: unknown,
  label: string | null | undefined,
): EngineScore | EngineFailure {
  // Each route has its own field for the score.
  const score = field(datum, 'score')
  if (score !== undefined) return scored(finiteScore(score, `data[${at}].score`), answer)
  const rows = field(datum, 'data')
  if (rows !== undefined) return tokenScored(rows, at, answer, label)
  // `probs` holds raw logits, because the activation is off.
  return scored(labelScore(field(datum, 'probs'), label, `data[${at}].probs`), answer)
}

const microBatch: MicroBatchProtocol = {
  takes: (target) => target.route !== 'pair' && asText(target),
  build: (inputs, target) =>
    wholeTextRequest({ input: inputs.map((input) => textOf(input, target)) }, target),
  parse: (status, headers, bodyText, count, target) =>
    readMicroBatchData(status, headers, bodyText, count, (entry, at) =>
      datumScored(entry, at, null, target?.label),
    ),
}

const tokens: TokenProtocol = {
  build(input, target) {
    const { input: prompt, messages } = wholeText(input, target)
    const what = messages === undefined ? { prompt } : { messages, add_generation_prompt: false }
    const body = { model: target.model ?? undefined, ...what, return_token_strs: true }
    return {
      path: `${rootOf(target.basePath)}/tokenize`,
      body: JSON.stringify({ ...body, add_special_tokens: specialTokens(target) }),
    }
  },
  parse(status, headers, bodyText, scores, input, target) {
    const answer = readJsonAnswer(status, headers, bodyText)
    if (!answer.ok) {
      // A repeated request would be refused too, even by another server of the pool.
      const isRefused = answer.class === 'client' || answer.class === 'corrupt' || answer.broken
      return isRefused ? { problem: clip(`/tokenize ${answer.detail}`) } : answer
    }
    const texts = field(answer.value, 'token_strs')
    if (!Array.isArray(texts) || !texts.every((text) => typeof text === 'string')) {
      return { problem: 'the server does not return the texts of its tokens' }
    }
    if (texts.length !== scores) {
      return { problem: `the model returns ${scores} scores for ${texts.length} tokens` }
    }
    const isPlain = asText(target) && target.chatTemplate == null
    return offsetsOf(texts, input, isPlain)
  },
}

/**
 * Reads the rows of a response, one per token or step. In each row the label is chosen as for /classify. The last row
 * holds the score of the sample.
 */
function tokenScored(
  rows: unknown,
  at: number,
  answer: unknown,
  label: string | null | undefined,
): EngineScore | EngineFailure {
  if (!Array.isArray(rows) || rows.length === 0) {
    return failure('corrupt', 'unparseable', `data[${at}].data is not a list of rows`)
  }
  const tokenScores: number[] = []
  for (let i = 0; i < rows.length; i++) {
    const where = `data[${at}].data[${i}]`
    const row: unknown = rows[i]
    const score = Array.isArray(row) ? labelScore(row, label, where) : finiteScore(row, where)
    if (typeof score !== 'number') return score
    tokenScores.push(score)
  }
  const last = scored(tokenScores.at(-1) as number, answer)
  return last.ok ? { ...last, tokenScores } : last
}

const lifecycle: EngineLifecycle = {
  hint: 'Start vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1.',
  reportsSleep: true,
  hasLevels: true,
  sleep: (fetch, basePath, level) =>
    // `mode=wait` has existed since 2026. Older servers ignore it, which is safe because nothing is in flight.
    lifecyclePost(
      fetch,
      `${rootOf(basePath)}/sleep?level=${level}&mode=wait`,
      'start vLLM with VLLM_SERVER_DEV_MODE=1 and --enable-sleep-mode',
    ),
  wake: (fetch, basePath) =>
    lifecyclePost(
      fetch,
      `${rootOf(basePath)}/wake_up`,
      'start vLLM with VLLM_SERVER_DEV_MODE=1 and --enable-sleep-mode',
    ),
  isSleeping: (fetch, basePath) => sleepState(fetch, rootOf(basePath)),
}

async function sleepState(fetch: EngineFetch, base: string): Promise<boolean | null> {
  const sleeping = field(await jsonOrNull(fetch, `${base}/is_sleeping`), 'is_sleeping')
  return typeof sleeping === 'boolean' ? sleeping : null
}

async function readLoad(fetch: EngineFetch, basePath: string): Promise<EngineLoad | null> {
  const text = await metricsText(fetch, `${rootOf(basePath)}/metrics`)
  if (text === null) return null
  return believableLoad(
    metricSum(text, 'vllm:num_requests_running'),
    metricSum(text, 'vllm:num_requests_waiting'),
  )
}

async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = rootOf(context.basePath)
  const models = await listModels(fetch, `${base}/v1/models`)
  if (!models.ok) return models
  const other = otherEngine('vllm', models.owner, context)
  if (other !== null) return other
  const version = await textField(fetch, `${base}/version`, 'version')
  const sleeping = await sleepState(fetch, base)
  const facts = {
    ok: true,
    engine: 'vllm',
    models: models.ids,
    version,
    maxModelLen: models.maxModelLen(context.model),
    canSleep: sleeping !== null,
    sleeping: sleeping === true,
  } as const
  const chats = () => routeExists(fetch, `${base}/v1/chat/completions`)
  if (context.kind === 'generative') {
    return (await chats())
      ? { ...facts, kind: 'generative', route: null, warnings: [] }
      : noChatRoute('vLLM')
  }
  // A sleeping server accepts requests without answering them, so its routes are not tried.
  if (sleeping === true) {
    const route = context.route ?? context.known?.route ?? null
    const plainText = context.known?.plainText ?? false
    return { ...facts, kind: route === null ? null : 'discriminative', route, plainText }
  }
  const model = context.model ?? models.ids[0] ?? null
  // The routes would refuse an unknown model, so they are not tried. The caller reports the served models.
  if (model !== null && models.ids.length > 0 && !models.ids.includes(model)) {
    return { ...facts, kind: null, route: null }
  }
  const found = await findRoute(vllm, fetch, { ...context, model, version, basePath: base })
  if (!('refused' in found) && found.route !== null) {
    return { ...facts, kind: 'discriminative', ...found }
  }
  // A generative model has no scoring routes, or its scoring routes refuse requests.
  if (context.route == null && (await chats())) {
    return { ...facts, kind: 'generative', route: null, warnings: [] }
  }
  return 'refused' in found ? found.refused : { ...facts, kind: null, ...found }
}

/**
 * vLLM: POST /classify, /pooling or /score, depending on the model, returns the raw score. Judges use chat completions.
 */
export const vllm: Engine = {
  name: 'vllm',
  scores: true,
  chats: true,
  selfTested: true,
  templated: true,
  routes: ['classify', 'token', 'pair'],
  labels: 'index',
  // There is no /v1/classify. /v1/embeddings works only for embedding models; the server refuses it for other models.
  paths: new Set([
    '/classify',
    '/pooling',
    '/score',
    '/rerank',
    '/v1/embeddings',
    '/v1/score',
    '/v1/rerank',
    '/v1/chat/completions',
    '/v1/completions',
    '/tokenize',
    '/detokenize',
  ]),
  lifecycle,
  buildScoreRequest,
  parseScoreResponse,
  microBatch,
  tokens,
  readLoad,
  probe,
  modelOwner: 'vllm',
  detect: async (fetch, context, listed) => {
    if (!listed) return null
    const version = await textField(fetch, `${rootOf(context.basePath)}/version`, 'version')
    return version === null ? null : probe(fetch, context)
  },
}
