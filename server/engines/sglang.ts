import { field, onlyDatum, readJsonAnswer, readMicroBatchData, scored } from './answer.ts'
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
} from './engine.ts'
import { labelScore } from './labels.ts'
import { lifecyclePost } from './lifecycle-call.ts'
import { believableLoad, loadJson } from './load-answers.ts'
import {
  jsonOrNull,
  listModels,
  noChatRoute,
  otherEngine,
  routeExists,
  textOrNull,
} from './probe-answers.ts'
import { sampleText } from './sample-text.ts'
import { rootOf } from './server-url.ts'

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  return embeddings(sampleText(input, target), target)
}

function embeddings(input: string | string[], target: EngineTarget): EngineRequest {
  return {
    // /v1/classify is not used, because its softmax over one label makes every reward 1.0.
    path: `${rootOf(target.basePath)}/v1/embeddings`,
    body: JSON.stringify({ model: target.model ?? 'default', input }),
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
  const only = onlyDatum(answer.value)
  if (!('item' in only)) return only
  return scored(
    labelScore(field(only.item, 'embedding'), target?.label, 'data[0].embedding'),
    answer.value,
  )
}

const microBatch: MicroBatchProtocol = {
  takes: () => true,
  build(inputs, target) {
    const texts = inputs.map((input) => sampleText(input, target))
    return embeddings(texts, target)
  },
  parse: (status, headers, bodyText, count, target) =>
    readMicroBatchData(status, headers, bodyText, count, (entry, at) =>
      scored(labelScore(field(entry, 'embedding'), target?.label, `data[${at}].embedding`), null),
    ),
}

const NO_MEMORY_SAVER = 'start SGLang with --enable-memory-saver'

const lifecycle: EngineLifecycle = {
  hint: 'Start SGLang with --enable-memory-saver.',
  reportsSleep: false,
  hasLevels: false,
  // Only a drained server is put to sleep: while requests run, the call fails an assertion in SGLang's scheduler, which
  // ends the server. The body must be an object.
  sleep: (fetch, basePath) =>
    lifecyclePost(
      fetch,
      `${rootOf(basePath)}/release_memory_occupation`,
      NO_MEMORY_SAVER,
      JSON.stringify({}),
    ),
  wake: (fetch, basePath) =>
    lifecyclePost(
      fetch,
      `${rootOf(basePath)}/resume_memory_occupation`,
      NO_MEMORY_SAVER,
      JSON.stringify({}),
    ),
  isSleeping: async () => null,
}

async function readLoad(fetch: EngineFetch, basePath: string): Promise<EngineLoad | null> {
  const base = rootOf(basePath)
  const loads = field(await loadJson(fetch, `${base}/v1/loads?include=core`), 'loads')
  const ranks = Array.isArray(loads) ? loads : await loadJson(fetch, `${base}/get_load`)
  if (!Array.isArray(ranks) || ranks.length === 0) return null
  let running = 0
  let waiting = 0
  for (const rank of ranks) {
    const load = rankLoad(rank)
    if (load === null) return null
    running += load.running
    waiting += load.waiting
  }
  return believableLoad(running, waiting)
}

/** Parses the load of one rank; null if it is invalid. `num_reqs` of the older route includes the waiting requests. */
function rankLoad(rank: unknown): EngineLoad | null {
  const waiting = field(rank, 'num_waiting_reqs')
  const running = field(rank, 'num_running_reqs')
  if (running !== undefined) return believableLoad(running, waiting)
  const all = believableLoad(field(rank, 'num_reqs'), waiting)
  return all === null ? null : believableLoad(all.running - all.waiting, all.waiting)
}

async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = rootOf(context.basePath)
  const models = await listModels(fetch, `${base}/v1/models`)
  if (!models.ok) return models
  const other = otherEngine('sglang', models.owner, context)
  if (other !== null) return other
  // Older servers have these routes only under their older names.
  const info =
    (await jsonOrNull(fetch, `${base}/model_info`)) ??
    (await jsonOrNull(fetch, `${base}/get_model_info`))
  const server =
    (await jsonOrNull(fetch, `${base}/server_info`)) ??
    (await jsonOrNull(fetch, `${base}/get_server_info`))
  const generates = field(info, 'is_generation')
  if (context.kind === 'generative') {
    const chats = await routeExists(fetch, `${base}/v1/chat/completions`)
    if (!chats || generates === false) return noChatRoute('SGLang')
  }
  const warnings: string[] = []
  if (field(server, 'allow_auto_truncate') === true) {
    warnings.push(
      'The server runs with --allow-auto-truncate: it silently drops the end of long texts, which is the part that a reward model scores.',
    )
  }
  return {
    ok: true,
    engine: 'sglang',
    models: models.ids,
    version: textOrNull(field(server, 'version')),
    maxModelLen: models.maxModelLen(context.model),
    kind: generates === true ? 'generative' : generates === false ? 'discriminative' : null,
    route: generates === true ? null : 'classify',
    canSleep: field(server, 'enable_memory_saver') === true,
    warnings,
  }
}

/**
 * SGLang, started with --is-embedding. POST /v1/embeddings returns a list of numbers. The raw score is the number of
 * the named label, or the last number. Judges use chat completions.
 */
export const sglang: Engine = {
  name: 'sglang',
  scores: true,
  chats: true,
  selfTested: true,
  templated: true,
  routes: ['classify'],
  labels: 'index',
  paths: new Set([
    '/classify',
    '/generate',
    '/v1/embeddings',
    '/v1/score',
    '/v1/classify',
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
  readLoad,
  probe,
  modelOwner: 'sglang',
  generatesHint:
    'Start SGLang with --is-embedding, or register it with "kind": "generative" as a judge.',
  detect: async (fetch, context, listed) => {
    if (!listed) return null
    const info = await jsonOrNull(fetch, `${rootOf(context.basePath)}/model_info`)
    return field(info, 'model_path') === undefined ? null : probe(fetch, context)
  },
}
