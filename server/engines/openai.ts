import { failure } from './answer.ts'
import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineRequest,
  ProbeContext,
  ProbeResult,
} from './engine.ts'
import {
  listModels,
  notRecognized,
  ROUTER_ADDRESS_OWNER,
  routerAddress,
  routeTakesPosts,
} from './probe-answers.ts'
import { rootOf } from './server-url.ts'

const NO_SCORES = 'a server with OpenAI’s API generates text and returns no scores'

/** @throws Error always, because these servers are for judges only */
function buildScoreRequest(): EngineRequest {
  throw new Error(NO_SCORES)
}

function parseScoreResponse(): EngineFailure {
  return failure('client', 'rejected', NO_SCORES)
}

async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const base = rootOf(context.basePath)
  const models = await listModels(fetch, `${base}/v1/models`)
  if (!models.ok) return models
  if (models.owner === ROUTER_ADDRESS_OWNER) return routerAddress()
  if (!(await routeTakesPosts(fetch, `${base}/v1/chat/completions`))) {
    return notRecognized(
      'the server has no /v1/chat/completions',
      'Give the URL before /v1, e.g. https://api.openai.com.',
    )
  }
  return {
    ok: true,
    engine: 'openai',
    models: models.ids,
    version: null,
    maxModelLen: models.maxModelLen(context.model),
    kind: 'generative',
    route: null,
    warnings: [],
  }
}

/** Any server with OpenAI's /v1/chat/completions; for judges only. */
export const openai: Engine = {
  name: 'openai',
  scores: false,
  chats: true,
  selfTested: false,
  templated: false,
  routes: [],
  labels: null,
  // A server of this engine may be a gateway to other engines, so it may have any of their /v1 paths.
  paths: new Set([
    '/v1/embeddings',
    '/v1/score',
    '/v1/classify',
    '/v1/rerank',
    '/v1/chat/completions',
    '/v1/completions',
  ]),
  lifecycle: null,
  buildScoreRequest,
  parseScoreResponse,
  microBatch: null,
  readLoad: async () => null,
  probe,
  modelOwner: null,
  detect: async (fetch, context, listed) => {
    if (!listed) return null
    const result = await probe(fetch, context)
    return result.ok ? result : null
  },
}
