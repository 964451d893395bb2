/** POST paths of the router address, which are passed on to servers. */
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
