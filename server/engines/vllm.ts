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
import { listModels, otherEngine, routeExists, textField } from './probe-answers.ts'
import { sampleMessages, sampleText } from './sample-text.ts'
import { type Version, versionBefore } from './version.ts'

/** `messages` on /classify came on 2025-11-14; 0.12.0 is the first release certain to have it. */
const MESSAGES_SINCE: Version = [0, 12, 0]
/** The raw score was asked for by `activation: false` in the releases from 0.10.1 … */
const ACTIVATION_SINCE: Version = [0, 10, 1]
/** … until 0.11.1 renamed it to `use_activation`. Later servers ignore the old word silently, and answer sigmoids. */
const USE_ACTIVATION_SINCE: Version = [0, 11, 1]

/** vLLM's /classify stands beside /v1, not under it: an address that ends in /v1 means the same server. */
function root(basePath: string | undefined): string {
  if (basePath === undefined || basePath === '') return ''
  return basePath.endsWith('/v1') ? basePath.slice(0, -3) : basePath
}

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  const { version } = target
  // Never both words: servers of late 2025 read the old one first, and inverted.
  const raw =
    version !== null &&
    !versionBefore(version, ACTIVATION_SINCE) &&
    versionBefore(version, USE_ACTIVATION_SINCE)
      ? { activation: false }
      : { use_activation: false }
  const text =
    version !== null && versionBefore(version, MESSAGES_SINCE)
      ? { input: sampleText(input) }
      : { messages: sampleMessages(input) }
  return {
    path: `${root(target.basePath)}/classify`,
    body: JSON.stringify({
      model: target.model ?? undefined,
      ...text,
      ...raw,
      // The default of the `input` form is true, a second BOS where the text has one.
      add_special_tokens: false,
    }),
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
  const probs = field(only.item, 'probs')
  if (!Array.isArray(probs) || probs.length === 0) {
    return failure('corrupt', 'unparseable', 'data[0].probs is not a list of numbers')
  }
  // Raw logits despite the name, because the activation was turned off.
  const score = finiteScore(probs[probs.length - 1], 'data[0].probs[-1]')
  if (typeof score !== 'number') return score
  const promptTokens = promptTokensOf(answer.value)
  return promptTokens === undefined ? { ok: true, score } : { ok: true, score, promptTokens }
}

async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = root(context.basePath)
  const models = await listModels(fetch, `${base}/v1/models`)
  if (!models.ok) return models
  if (models.owner === 'sglang') return otherEngine('vLLM', 'SGLang', 'sglang')
  const version = await textField(fetch, `${base}/version`, 'version')
  const classifies = await routeExists(fetch, `${base}/classify`)
  const chats = classifies ? false : await routeExists(fetch, `${base}/v1/chat/completions`)
  return {
    ok: true,
    engine: 'vllm',
    models: models.ids,
    version,
    maxModelLen: models.maxModelLen(context.model),
    kind: classifies ? 'discriminative' : chats ? 'generative' : null,
  }
}

/** vLLM: POST /classify, the raw score of a classification or reward model. */
export const vllm: Engine = { name: 'vllm', buildScoreRequest, parseScoreResponse, probe }
