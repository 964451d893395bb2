import { elementsOf, failure, field, finiteScore, onlyElement, readJsonAnswer } from './answer.ts'
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
  ScoreJoin,
  ScoreRoute,
} from './engine.ts'
import { believableLoad, metricSum, metricsText } from './load-answers.ts'
import {
  isBusy,
  notReady,
  notRecognised,
  otherKind,
  positiveInt,
  textOrNull,
} from './probe-answers.ts'
import { promptText, sampleText, wellFormed } from './sample-text.ts'
import { rootOf } from './server-url.ts'

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  if (target.route === 'pair') {
    const texts = [wellFormed(input.response)]
    return {
      path: `${rootOf(target.basePath)}/rerank`,
      body: JSON.stringify({ query: promptText(input), texts, ...how(target) }),
    }
  }
  return predict([input], target)
}

function predict(inputs: readonly ScoreInput[], target: EngineTarget): EngineRequest {
  return {
    path: `${rootOf(target.basePath)}/predict`,
    body: JSON.stringify({
      // A list of lists: a flat list of two texts would be one pair.
      inputs: inputs.map((input) => [sampleText(input, target)]),
      ...how(target),
    }),
  }
}

/** `truncate` said outright: since 1.9 servers cut long texts unasked, at the end, which is what is scored. */
function how(target: EngineTarget): Record<string, boolean> {
  return { raw_scores: target.activated !== true, truncate: false }
}

function parseScoreResponse(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
): EngineScore | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  const only = onlyElement(answer.value, 'the answer')
  if (!('item' in only)) return only
  // /predict gives a list of labels a text, /rerank an object a text.
  const { item } = only
  const score = Array.isArray(item) ? predicted(item, 0) : ranked(item)
  if (typeof score !== 'number') return score
  const promptTokens = tokensOf(headers)
  return promptTokens === undefined ? { ok: true, score } : { ok: true, score, promptTokens }
}

const join: ScoreJoin = {
  // A reranker takes many answers to one prompt, and a step's rows have prompts of their own.
  takes: (target) => target.route !== 'pair',
  build: predict,
  parse(status, headers, bodyText, count) {
    const answer = readJsonAnswer(status, headers, bodyText)
    if (!answer.ok) return answer
    const found = elementsOf(answer.value, 'the answer', count)
    if (!('items' in found)) return found
    const rows: (EngineScore | EngineFailure)[] = []
    for (const labels of found.items) {
      if (!Array.isArray(labels)) {
        return failure('corrupt', 'unparseable', `[${rows.length}] is not a list of labels`)
      }
      const score = predicted(labels, rows.length)
      rows.push(typeof score === 'number' ? { ok: true, score } : score)
    }
    return { ok: true, rows, promptTokens: tokensOf(headers) ?? null }
  },
}

function ranked(item: unknown): number | EngineFailure {
  const index = field(item, 'index')
  if (index !== 0) {
    return failure('corrupt', 'unparseable', `[0].index is ${JSON.stringify(index)} for one text`)
  }
  return finiteScore(field(item, 'score'), '[0].score')
}

/**
 * The one label's score. Of several, which TEI sorts by score, the last label by its number (`LABEL_3`): the last logit,
 * as trainers take it.
 */
function predicted(labels: unknown[], at: number): number | EngineFailure {
  if (labels.length === 0) return failure('corrupt', 'unparseable', `[${at}] is an empty list`)
  if (labels.length === 1) return finiteScore(field(labels[0], 'score'), `[${at}][0].score`)
  let last: unknown
  let highest = -1
  for (const label of labels) {
    const number = labelNumber(field(label, 'label'))
    // The probe refuses such a model; one that was put in its place since must not be scored by a guess.
    if (number === null) {
      const names = labels.map((other) => String(field(other, 'label'))).join(', ')
      return failure('client', 'rejected', `which of the labels is the score is unknown: ${names}`)
    }
    if (number > highest) {
      highest = number
      last = label
    }
  }
  return finiteScore(field(last, 'score'), `[${at}] of label ${highest}, score`)
}

function labelNumber(label: unknown): number | null {
  const digits = typeof label === 'string' ? /^(?:label_?)?(\d+)$/i.exec(label)?.[1] : undefined
  return digits === undefined ? null : Number(digits)
}

/** TEI counts tokens in a header, not in the body. */
function tokensOf(headers: ResponseHeaders): number | undefined {
  const value = headers['x-compute-tokens']
  const tokens = typeof value === 'string' ? Number(value) : Number.NaN
  return Number.isSafeInteger(tokens) && tokens > 0 ? tokens : undefined
}

async function readLoad(fetch: EngineFetch, basePath: string): Promise<EngineLoad | null> {
  const text = await metricsText(fetch, `${rootOf(basePath)}/metrics`)
  // What runs is not told; what waits is.
  return text === null ? null : believableLoad(0, metricSum(text, 'te_queue_size'))
}

/** `model_type` of /info: `{"reranker":{…}}`, in some builds the bare word. */
export function teiModelType(info: unknown): { name: string; labels: string[] } | null {
  const type = field(info, 'model_type')
  if (typeof type === 'string') return { name: type.toLowerCase(), labels: [] }
  if (typeof type !== 'object' || type === null) return null
  const [entry] = Object.entries(type)
  if (entry === undefined) return null
  const id2label = field(entry[1], 'id2label')
  const labels =
    typeof id2label === 'object' && id2label !== null ? Object.values(id2label).map(String) : []
  return { name: entry[0].toLowerCase(), labels }
}

const NOT_TEI = 'Check that the address is the root of a text-embeddings-inference server.'

async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const path = `${rootOf(context.basePath)}/info`
  const reply = await fetch(path)
  if (isBusy(reply)) return notReady('GET', path, reply)
  const info = parsed(reply.status, reply.bodyText)
  const type = teiModelType(info)
  if (type === null) {
    return notRecognised(`GET ${path} did not answer what text-embeddings-inference does`, NOT_TEI)
  }
  // A model of one label calls itself a reranker, whatever it was trained for.
  const route: ScoreRoute | null =
    type.name === 'reranker' ? 'pair' : type.name === 'classifier' ? 'classify' : null
  if (route === null) {
    return otherKind(
      `the server has an ${type.name} model, which gives no scores`,
      'Serve a sequence-classification model.',
    )
  }
  if (type.labels.length > 1 && type.labels.some((label) => labelNumber(label) === null)) {
    return otherKind(
      `the model has ${type.labels.length} labels (${type.labels.join(', ')}), and which of them is the score is unknown`,
      'Serve a model with one label, or name its labels LABEL_0, LABEL_1 …: the last is the score.',
    )
  }
  const model = textOrNull(field(info, 'model_id'))
  return {
    ok: true,
    engine: 'tei',
    models: model === null ? [] : [model],
    version: textOrNull(field(info, 'version')),
    maxModelLen: positiveInt(field(info, 'max_input_length')),
    kind: 'discriminative',
    route,
    maxConcurrent: positiveInt(field(info, 'max_concurrent_requests')),
    warnings: [],
  }
}

function parsed(status: number, bodyText: string): unknown {
  if (status !== 200) return null
  try {
    return JSON.parse(bodyText)
  } catch {
    return null
  }
}

/** text-embeddings-inference: POST /predict for classifiers, /rerank for rerankers, raw scores, never truncated. */
export const tei: Engine = {
  name: 'tei',
  scores: true,
  chats: false,
  selfTested: true,
  templated: true,
  lifecycle: null,
  buildScoreRequest,
  parseScoreResponse,
  join,
  readLoad,
  probe,
}
