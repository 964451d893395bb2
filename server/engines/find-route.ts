import { ENGINE_DEAD, errorMessage, field } from './answer.ts'
import type {
  Engine,
  EngineFetch,
  EngineReply,
  EngineTarget,
  ProbeContext,
  ProbeFailure,
  SampleTemplate,
  ScoreInput,
  ScoreRoute,
} from './engine.ts'
import { ProbeStop } from './engine-fetch.ts'
import { otherKind } from './probe-answers.ts'
import { sampleMessages } from './sample-text.ts'
import { versionBefore } from './version.ts'

const SHORT: ScoreInput = { prompt: 'What is 1 + 1?', response: '2' }
/** Maximum number of labels of a reward model. A longer list of numbers for one text or token is an embedding. */
const MAX_LABELS = 16
/** Replaces the registered template in a probe, for which any text is enough. */
const RENDERED: SampleTemplate = {
  renderSample: () => 'What is 1 + 1?\n2',
  renderSampleWithoutBos: () => 'What is 1 + 1?\n2',
}

/** The scoring route of a server; `route` is null if the server has none. */
export interface FoundRoute {
  route: ScoreRoute | null
  plainText: boolean
  /** Warnings about the choice; absent if the result comes from an earlier probe. */
  warnings?: string[]
}

type RouteAnswer =
  | { is: 'score' }
  | { is: 'no_template' }
  | { is: 'missing'; said: string }
  /** The route exists but does not score this model. */
  | { is: 'unsupported'; said: string }
  /** The server failed or did not answer, so nothing is known about the route. */
  | { is: 'fault'; said: string }

type Found = FoundRoute | { refused: ProbeFailure }

type RouteQuestion = Pick<ProbeContext, 'route' | 'templated' | 'known'> &
  Pick<EngineTarget, 'model' | 'version' | 'basePath'>

/**
 * Finds the scoring route of a vLLM server. Each candidate receives one short text by POST, and the first that returns
 * a score is used. In many versions all routes exist for every model, so their existence proves nothing. If the
 * registration names a route, only that one is tried.
 */
export async function findRoute(
  engine: Pick<Engine, 'buildScoreRequest' | 'parseScoreResponse'>,
  fetch: EngineFetch,
  question: RouteQuestion,
): Promise<Found> {
  const { known, route: named } = question
  const before =
    known != null && (named == null || named === known.route)
      ? { route: known.route, plainText: known.plainText }
      : null
  if (before !== null && known?.inUse) return before
  const ask = (route: ScoreRoute, plainText = false) =>
    askRoute(engine, fetch, question, route, plainText)
  const answers: [ScoreRoute, RouteAnswer][] = []
  const candidates: ScoreRoute[] = named == null ? ['classify', 'token'] : [named]
  for (const route of candidates) {
    const answer = await ask(route)
    if (answer.is === 'score') return scoring(fetch, question, route, ask)
    if (answer.is === 'no_template') {
      // Embeddings are tested only if no earlier route returned a score. For classifiers, /pooling of vLLM 0.11 returns
      // hidden states, which look like an embedding.
      if (named == null && (await isEmbedding(fetch, question))) {
        return { refused: embeddingModel() }
      }
      return withoutTemplate(question, route, ask)
    }
    answers.push([route, answer])
    // The route is used despite the fault. The self-test, which waits longer than a probe, reports the problem.
    if (answer.is === 'fault') return before ?? found(route)
  }
  if (named == null) {
    if (
      answers.every(([, answer]) => answer.is !== 'missing') &&
      (await isEmbedding(fetch, question))
    )
      return { refused: embeddingModel() }
    const answer = await ask('pair')
    if (answer.is === 'score') return found('pair')
    if (answer.is === 'fault') return before ?? found('pair')
    answers.push(['pair', answer])
  }
  if (named == null && answers.every(([, answer]) => answer.is === 'missing')) {
    return { route: null, plainText: false, warnings: [] }
  }
  return { refused: noScore(answers, named ?? null) }
}

function found(route: ScoreRoute, plainText = false, ...warnings: string[]): FoundRoute {
  return { route, plainText, warnings }
}

const SCORED_AS_PAIR =
  'The model has no chat template, and /score takes prompt and response as a pair, as a cross-encoder reads them. If it is a reward model that reads a conversation, register it with "chatTemplate", or with "route": "classify".'
const SCORED_AS_TEXT =
  'The model has no chat template: it is sent the prompt, a newline and the response. Register it with "chatTemplate" if it was trained with one.'
const MAY_BE_STEPWISE =
  'The model also scores every token (/pooling), as all classifiers of this vLLM do. If it is a process reward model, register it with "route": "token" to get the scores of its steps. The score of the last step is the sample’s score either way.'

type AskRoute = (route: ScoreRoute, plainText?: boolean) => Promise<RouteAnswer>

/**
 * Checks a route that returned a score. In older versions of vLLM, a score alone does not identify the kind of model.
 */
async function scoring(
  fetch: EngineFetch,
  question: RouteQuestion,
  route: ScoreRoute,
  ask: AskRoute,
): Promise<Found> {
  const { version, route: named, templated } = question
  if (route !== 'classify' || named != null || version === null) return found(route)
  // Versions before 0.12 accept no messages on /classify, so only /tokenize shows that a chat template is missing.
  if (versionBefore(version, [0, 12, 0])) {
    if (templated || (await hasTemplate(fetch, question))) return found(route)
    return withoutTemplate(question, route, ask)
  }
  if (versionBefore(version, [0, 16, 0]) && (await givesTokenRows(fetch, question))) {
    return found(route, false, MAY_BE_STEPWISE)
  }
  return found(route)
}

/**
 * Chooses the route of a model without a chat template. If the model scores pairs, it is a cross-encoder. Otherwise it
 * reads plain text.
 */
async function withoutTemplate(
  question: RouteQuestion,
  route: ScoreRoute,
  ask: AskRoute,
): Promise<Found> {
  const answers: [ScoreRoute, RouteAnswer][] = []
  if (question.route == null) {
    const pair = await ask('pair')
    if (pair.is === 'score') return found('pair', false, SCORED_AS_PAIR)
    answers.push(['pair', pair])
  }
  const routes: ScoreRoute[] = question.route == null ? ['classify', 'token'] : [route]
  for (const one of routes) {
    const answer = await ask(one, true)
    if (answer.is === 'score') return found(one, true, SCORED_AS_TEXT)
    answers.push([one, answer])
  }
  return { refused: noScore(answers, question.route ?? null) }
}

async function askRoute(
  engine: Pick<Engine, 'buildScoreRequest' | 'parseScoreResponse'>,
  fetch: EngineFetch,
  { model, version, basePath = '', templated }: RouteQuestion,
  route: ScoreRoute,
  plainText: boolean,
): Promise<RouteAnswer> {
  const chatTemplate = templated && route !== 'pair' ? RENDERED : null
  const target: EngineTarget = { model, version, basePath, route, plainText, chatTemplate }
  const { path, body } = engine.buildScoreRequest(SHORT, target)
  const reply = await post(fetch, path, String(body))
  if (reply === null) return { is: 'fault', said: `POST ${path} was not answered` }
  const score = engine.parseScoreResponse(reply.status, reply.headers, reply.bodyText, target)
  // A route that returns NaN is a scoring route. The self-test refuses the NaN.
  if (score.ok || score.reason === 'non_finite') return { is: 'score' }
  const status = statusOf(reply)
  const message = errorMessage(reply.bodyText)
  const said = `POST ${path} answered ${status}: ${message}`
  if (NO_TEMPLATE.test(message)) return { is: 'no_template' }
  if (status === 408 || status === 429 || ENGINE_DEAD.test(message)) return { is: 'fault', said }
  if (status === 404 || status === 405) return { is: 'missing', said }
  return { is: status >= 500 && status !== 501 ? 'fault' : 'unsupported', said }
}

/**
 * Sends a request. Resolves to null if the server does not respond. Rejects for errors that end a probe (a refused key,
 * a redirect).
 */
async function post(fetch: EngineFetch, path: string, body: string): Promise<EngineReply | null> {
  try {
    return await fetch(path, { method: 'POST', body })
  } catch (error) {
    if (error instanceof ProbeStop && error.failure.reason === 'server_unreachable') return null
    throw error
  }
}

/** Part of transformers' message about a missing chat template, which every version of vLLM passes on. */
const NO_TEMPLATE = /chat template/i

/** Returns the effective status: vLLM answers some failures with 200 and the status in `error.code`. */
function statusOf({ status, bodyText }: EngineReply): number {
  if (status < 200 || status >= 300) return status
  try {
    const code = field(field(JSON.parse(bodyText), 'error'), 'code')
    return typeof code === 'number' ? code : status
  } catch {
    return status
  }
}

/**
 * Returns the entry of `data` that /pooling returns for a text in the model's default task, or null if there is none.
 */
async function pooled(
  fetch: EngineFetch,
  { model, basePath = '' }: RouteQuestion,
): Promise<unknown> {
  const body = { model: model ?? undefined, input: 'What is 1 + 1?', encoding_format: 'float' }
  const reply = await post(fetch, `${basePath}/pooling`, JSON.stringify(body))
  if (reply === null) return null
  try {
    const data = field(JSON.parse(reply.bodyText), 'data')
    return Array.isArray(data) ? (field(data[0], 'data') ?? null) : null
  } catch {
    return null
  }
}

async function isEmbedding(fetch: EngineFetch, question: RouteQuestion): Promise<boolean> {
  const data = await pooled(fetch, question)
  const numbers = Array.isArray(data) && Array.isArray(data[0]) ? data[0] : data
  return Array.isArray(numbers) && numbers.length > MAX_LABELS
}

async function givesTokenRows(fetch: EngineFetch, question: RouteQuestion): Promise<boolean> {
  const data = await pooled(fetch, question)
  return Array.isArray(data) && data.length > 1 && data.every((row) => Array.isArray(row))
}

async function hasTemplate(
  fetch: EngineFetch,
  { model, basePath = '' }: RouteQuestion,
): Promise<boolean> {
  const body = JSON.stringify({ model: model ?? undefined, messages: sampleMessages(SHORT) })
  const reply = await post(fetch, `${basePath}/tokenize`, body)
  return reply === null || reply.status < 400 || !NO_TEMPLATE.test(errorMessage(reply.bodyText))
}

function embeddingModel(): ProbeFailure {
  return otherKind(
    'the model returns embeddings, not scores: POST /pooling returned a vector',
    'Serve a sequence-classification model.',
  )
}

function noScore(
  answers: readonly [ScoreRoute, RouteAnswer][],
  named: ScoreRoute | null,
): ProbeFailure {
  const said = answers.map(([route, answer]) =>
    'said' in answer ? answer.said : `the route "${route}" needs a chat template`,
  )
  return otherKind(
    `${named === null ? 'no route returned a score' : `route: "${named}" returned no score`}: ${said.join(' · ')}`,
    named === null
      ? 'Serve a reward model or a cross-encoder; one without a chat template may need "chatTemplate".'
      : 'Leave "route" out to try every route, or give "chatTemplate" if the model has none.',
  )
}
