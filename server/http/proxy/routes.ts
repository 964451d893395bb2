import type { EngineName } from '../../router/router-types.ts'

/** POST paths that are passed on to servers. */
export const PROXIED_PATHS = [
  '/classify',
  '/pooling',
  '/score',
  '/rerank',
  '/generate',
  '/predict',
  '/v1/embeddings',
  '/v1/score',
  '/v1/classify',
  '/v1/rerank',
  '/v1/chat/completions',
  '/v1/completions',
  '/tokenize',
  '/detokenize',
] as const

export type ProxiedPath = (typeof PROXIED_PATHS)[number]

/** The list of models, answered by the service itself. */
export const MODELS_PATH = '/v1/models'

/** Paths of generative models. Answers may be streamed. If the server was put to sleep, `finish_reason` is `abort`. */
const GENERATING: ReadonlySet<string> = new Set<ProxiedPath>([
  '/generate',
  '/v1/chat/completions',
  '/v1/completions',
])

/** True when answers on a path are generated text. */
export function generates(path: ProxiedPath): boolean {
  return GENERATING.has(path)
}

const PATHS: ReadonlySet<string> = new Set(PROXIED_PATHS)

export function isProxied(path: string): path is ProxiedPath {
  return PATHS.has(path)
}

export function isRouterPath(path: string): boolean {
  return PATHS.has(path) || path === MODELS_PATH
}

/**
 * The paths of each engine. A server answers other paths with 404, so calls are sent only to engines that have the
 * path. `openrlhf` and `http` are missing, because each has a single route with its own format.
 */
const ENGINE_PATHS: Readonly<Partial<Record<EngineName, ReadonlySet<ProxiedPath>>>> = {
  // There is no /v1/classify. /v1/embeddings works only for embedding models; the server refuses it for other models.
  vllm: new Set([
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
  sglang: new Set([
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
  // TEI converts tokens to text at /decode, not at /detokenize.
  tei: new Set(['/predict', '/rerank', '/v1/embeddings', '/tokenize']),
  llamacpp: new Set([
    '/rerank',
    '/v1/rerank',
    '/v1/embeddings',
    '/v1/chat/completions',
    '/v1/completions',
    '/tokenize',
    '/detokenize',
  ]),
  // A server of this engine may be a gateway to the engines above, with all paths of /v1.
  openai: new Set([
    '/v1/embeddings',
    '/v1/score',
    '/v1/classify',
    '/v1/rerank',
    '/v1/chat/completions',
    '/v1/completions',
  ]),
}

export function hasPath(engine: EngineName, path: ProxiedPath): boolean {
  return ENGINE_PATHS[engine]?.has(path) === true
}

export function enginesWith(path: ProxiedPath): EngineName[] {
  return (Object.keys(ENGINE_PATHS) as EngineName[]).filter((engine) => hasPath(engine, path))
}
