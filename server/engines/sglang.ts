import {
  failure,
  field,
  finiteScore,
  onlyElement,
  promptTokensOf,
  readJsonAnswer,
} from './answer.ts'
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
import { jsonOrNull, listModels, otherEngine, textField } from './probe-answers.ts'
import { sampleText } from './sample-text.ts'

/** An address that ends in /v1 means the same server as one that does not. */
function root(basePath: string | undefined): string {
  if (basePath === undefined || basePath === '') return ''
  return basePath.endsWith('/v1') ? basePath.slice(0, -3) : basePath
}

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  return {
    // Not /v1/classify: its softmax over one label makes every reward 1.0.
    path: `${root(target.basePath)}/v1/embeddings`,
    body: JSON.stringify({ model: target.model ?? 'default', input: sampleText(input) }),
  }
}

function parseScoreResponse(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
): EngineScore | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  const only = onlyElement(field(answer.value, 'data'), 'data')
  if (!('item' in only)) return only
  const embedding = field(only.item, 'embedding')
  if (!Array.isArray(embedding) || embedding.length === 0) {
    return failure('corrupt', 'unparseable', 'data[0].embedding is not a list of numbers')
  }
  const score = finiteScore(embedding[embedding.length - 1], 'data[0].embedding[-1]')
  if (typeof score !== 'number') return score
  const promptTokens = promptTokensOf(answer.value)
  return promptTokens === undefined ? { ok: true, score } : { ok: true, score, promptTokens }
}

async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = root(context.basePath)
  const models = await listModels(fetch, `${base}/v1/models`)
  if (!models.ok) return models
  if (models.owner === 'vllm') return otherEngine('SGLang', 'vLLM', 'vllm')
  // The older servers know the route by its older name only.
  const info =
    (await jsonOrNull(fetch, `${base}/model_info`)) ??
    (await jsonOrNull(fetch, `${base}/get_model_info`))
  const version =
    (await textField(fetch, `${base}/server_info`, 'version')) ??
    (await textField(fetch, `${base}/get_server_info`, 'version'))
  const generates = field(info, 'is_generation')
  return {
    ok: true,
    engine: 'sglang',
    models: models.ids,
    version,
    maxModelLen: models.maxModelLen(context.model),
    kind: generates === true ? 'generative' : generates === false ? 'discriminative' : null,
  }
}

/** SGLang, launched with --is-embedding: POST /v1/embeddings, whose last number is the raw score. */
export const sglang: Engine = { name: 'sglang', buildScoreRequest, parseScoreResponse, probe }
