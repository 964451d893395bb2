import type { EngineName } from '../../router/router-types.ts'

/** Paths that are passed on by POST. */
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

/** A path that is passed on to a server of the model. */
export type ProxiedPath = (typeof PROXIED_PATHS)[number]

/** Answered by us: the models there are. */
export const MODELS_PATH = '/v1/models'

/** Paths of models that generate: answers may come token by token, and end in `abort` where the server went to sleep. */
const GENERATING: ReadonlySet<string> = new Set<ProxiedPath>([
  '/generate',
  '/v1/chat/completions',
  '/v1/completions',
])

/** Whether the answer on a path is generated. */
export function generates(path: ProxiedPath): boolean {
  return GENERATING.has(path)
}

const PATHS: ReadonlySet<string> = new Set(PROXIED_PATHS)

/** Whether a path is one of those passed on. */
export function isProxied(path: string): path is ProxiedPath {
  return PATHS.has(path)
}

/** Whether a path belongs to the router address. */
export function isRouterPath(path: string): boolean {
  return PATHS.has(path) || path === MODELS_PATH
}

/**
 * What each engine answers. A path an engine lacks is 404 there, so calls go to servers whose engine has it. Neither
 * `openrlhf` nor `http` is here: their address is the one route they have, in a format of its own.
 */
const ENGINE_PATHS: Readonly<Partial<Record<EngineName, ReadonlySet<ProxiedPath>>>> = {
  // No /v1/classify, and /v1/embeddings only for embedding models: that is the server's to say.
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
  // Its way back is /decode.
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
  // Whatever stands behind an address of this kind: gateways of the engines above have all of /v1.
  openai: new Set([
    '/v1/embeddings',
    '/v1/score',
    '/v1/classify',
    '/v1/rerank',
    '/v1/chat/completions',
    '/v1/completions',
  ]),
}

/** Whether servers of an engine answer on a path. */
export function hasPath(engine: EngineName, path: ProxiedPath): boolean {
  return ENGINE_PATHS[engine]?.has(path) === true
}

/** The engines that answer on a path. */
export function enginesWith(path: ProxiedPath): EngineName[] {
  return (Object.keys(ENGINE_PATHS) as EngineName[]).filter((engine) => hasPath(engine, path))
}
