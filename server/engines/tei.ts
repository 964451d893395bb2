import { lastLabelWarning } from '../contract/servers.ts'
import {
  broken,
  elementsOf,
  failure,
  field,
  finiteScore,
  onlyElement,
  readJsonAnswer,
} from './answer.ts'
import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineLoad,
  EngineRequest,
  EngineScore,
  EngineTarget,
  MicroBatchProtocol,
  ProbeContext,
  ProbeFailure,
  ProbeResult,
  ResponseHeaders,
  ScoreInput,
  ScoreRoute,
} from './engine.ts'
import { labelIndex, noSuchLabel } from './labels.ts'
import { believableLoad, metricSum, metricsText } from './load-answers.ts'
import {
  isBusy,
  jsonOrNull,
  notReady,
  notRecognized,
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
      // A list of lists, because TEI reads a flat list of two texts as one pair.
      inputs: inputs.map((input) => [sampleText(input, target)]),
      ...how(target),
    }),
  }
}

/**
 * The options of both routes. `truncate` is explicit, because TEI 1.9 and later cut off the end of long texts by
 * default, although the score depends on the end.
 */
function how(target: EngineTarget): Record<string, boolean> {
  return { raw_scores: target.activated !== true, truncate: false }
}

function parseScoreResponse(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
  target?: EngineTarget,
): EngineScore | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  const only = onlyElement(answer.value, 'the answer')
  if (!('item' in only)) return only
  // For each text, /predict returns a list of labels and /rerank an object.
  const { item } = only
  const score = Array.isArray(item) ? predicted(item, 0, target?.label) : ranked(item)
  if (typeof score !== 'number') return score
  const promptTokens = tokensOf(headers)
  return promptTokens === undefined ? { ok: true, score } : { ok: true, score, promptTokens }
}

const microBatch: MicroBatchProtocol = {
  // A rerank request scores several responses to one prompt, but the samples of a micro-batch may have different
  // prompts.
  takes: (target) => target.route !== 'pair',
  build: predict,
  parse(status, headers, bodyText, count, target) {
    const answer = readJsonAnswer(status, headers, bodyText)
    if (!answer.ok) return answer
    const found = elementsOf(answer.value, 'the answer', count)
    if (!('items' in found)) return found
    const scores: (EngineScore | EngineFailure)[] = []
    for (const labels of found.items) {
      if (!Array.isArray(labels)) {
        return failure('corrupt', 'unparseable', `[${scores.length}] is not a list of labels`)
      }
      const score = predicted(labels, scores.length, target?.label)
      scores.push(typeof score === 'number' ? { ok: true, score } : score)
    }
    return { ok: true, scores, promptTokens: tokensOf(headers) ?? null }
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
 * Returns the score of the named label, or of the label with the highest number (`LABEL_3`). Positions mean nothing,
 * because TEI sorts labels by score.
 */
function predicted(
  labels: unknown[],
  at: number,
  wanted: string | null | undefined,
): number | EngineFailure {
  if (labels.length === 0) return failure('corrupt', 'unparseable', `[${at}] is an empty list`)
  const names = labels.map((label) => String(field(label, 'label')))
  const found = wanted == null ? lastLabel(names) : placeOf(wanted, names)
  if (found !== null) return finiteScore(field(labels[found], 'score'), `[${at}] ${names[found]}`)
  if (wanted != null) return noSuchLabel(wanted, names.join(', '))
  // The probe stores a label for every model with named labels. If none is stored, the server now has another model.
  return broken('unparseable', `the last label is unknown: ${names.join(', ')}`)
}

function placeOf(wanted: string, names: readonly string[]): number | null {
  const exact = names.indexOf(wanted)
  if (exact >= 0) return exact
  const index = labelIndex(wanted)
  const at = index === null ? -1 : names.findIndex((name) => labelIndex(name) === index)
  return at >= 0 ? at : null
}

function lastLabel(names: readonly string[]): number | null {
  if (names.length === 1) return 0
  let last: number | null = null
  for (const [at, name] of names.entries()) {
    const index = labelIndex(name)
    if (index === null) return null
    if (last === null || index > (labelIndex(names[last] as string) as number)) last = at
  }
  return last
}

function tokensOf(headers: ResponseHeaders): number | undefined {
  const value = headers['x-compute-tokens']
  const tokens = typeof value === 'string' ? Number(value) : Number.NaN
  return Number.isSafeInteger(tokens) && tokens > 0 ? tokens : undefined
}

async function readLoad(fetch: EngineFetch, basePath: string): Promise<EngineLoad | null> {
  const text = await metricsText(fetch, `${rootOf(basePath)}/metrics`)
  // TEI reports waiting requests only.
  return text === null ? null : believableLoad(0, metricSum(text, 'te_queue_size'))
}

/**
 * Reads `model_type` of /info, which is `{"reranker":{…}}`, or only the name in some builds. Returns null if there is
 * none.
 */
function teiModelType(info: unknown): { name: string; labels: string[] } | null {
  const type = field(info, 'model_type')
  if (typeof type === 'string') return { name: type.toLowerCase(), labels: [] }
  if (typeof type !== 'object' || type === null) return null
  const [entry] = Object.entries(type)
  if (entry === undefined) return null
  const id2label = field(entry[1], 'id2label')
  const labels =
    typeof id2label === 'object' && id2label !== null
      ? Object.entries(id2label)
          .sort(([a], [b]) => Number(a) - Number(b))
          .map(([, label]) => String(label))
      : []
  return { name: entry[0].toLowerCase(), labels }
}

const NOT_TEI = 'Check that the URL is the root of a text-embeddings-inference server.'

async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const path = `${rootOf(context.basePath)}/info`
  const reply = await fetch(path)
  if (isBusy(reply)) return notReady('GET', path, reply)
  const info = parsed(reply.status, reply.bodyText)
  const type = teiModelType(info)
  if (type === null) {
    return notRecognized(`GET ${path} returned no model type of text-embeddings-inference`, NOT_TEI)
  }
  // TEI treats every model with one label as a reranker.
  const route: ScoreRoute | null =
    type.name === 'reranker' ? 'pair' : type.name === 'classifier' ? 'classify' : null
  if (route === null) {
    return otherKind(
      `the server has an ${type.name} model, which returns no scores`,
      'Serve a sequence-classification model.',
    )
  }
  const label = namedLabel(type.labels, context.label ?? null)
  if (typeof label === 'object' && label !== null) return label
  const model = textOrNull(field(info, 'model_id'))
  return {
    ok: true,
    engine: 'tei',
    models: model === null ? [] : [model],
    ignoresModelName: true,
    version: textOrNull(field(info, 'version')),
    maxModelLen: positiveInt(field(info, 'max_input_length')),
    kind: 'discriminative',
    route: context.route ?? route,
    label,
    maxConcurrent: positiveInt(field(info, 'max_concurrent_requests')),
    warnings:
      type.labels.length > 1 && context.label == null ? [lastLabelWarning(type.labels)] : [],
  }
}

/**
 * Returns the label whose score is used, by the server's name for it. Returns null if none was requested and the server
 * reports at most one label.
 */
function namedLabel(
  labels: readonly string[],
  wanted: string | null,
): string | null | ProbeFailure {
  if (labels.length === 0) return wanted
  if (wanted === null) return labels.length === 1 ? null : (labels.at(-1) as string)
  const index = labelIndex(wanted)
  const found = labels.includes(wanted) ? wanted : index === null ? undefined : labels[index]
  return (
    found ??
    otherKind(
      `label: the model has no label "${wanted}", but ${labels.join(', ')}`,
      'Name one of those, by name or by index from 0.',
    )
  )
}

function parsed(status: number, bodyText: string): unknown {
  if (status !== 200) return null
  try {
    return JSON.parse(bodyText)
  } catch {
    return null
  }
}

/**
 * text-embeddings-inference: POST /predict for classifiers and /rerank for rerankers, with raw scores and without
 * truncation.
 */
export const tei: Engine = {
  name: 'tei',
  scores: true,
  chats: false,
  selfTested: true,
  templated: true,
  routes: ['classify', 'pair'],
  labels: 'name',
  // TEI converts tokens to text at /decode, not at /detokenize.
  paths: new Set(['/predict', '/rerank', '/v1/embeddings', '/tokenize']),
  lifecycle: null,
  buildScoreRequest,
  parseScoreResponse,
  microBatch,
  readLoad,
  probe,
  modelOwner: null,
  detect: async (fetch, context) => {
    const info = await jsonOrNull(fetch, `${rootOf(context.basePath)}/info`)
    return teiModelType(info) === null ? null : probe(fetch, context)
  },
}
