import { answer, type FakeHandler } from './fake-server.ts'
import { models, routes } from './routes.ts'

/**
 * Answers of real vLLM servers on a CPU (tiny random models), unchanged except for ids. For requests without a recorded
 * answer, the refusal that the same version gave on another route is used.
 */

const text = (status: number, body: string) =>
  answer(status, body, { 'content-type': 'application/json' })

const unsupported = (api: string, status = 200, code = 400) =>
  text(
    status,
    `{"error":{"message":"The model does not support ${api} API","type":"BadRequestError","param":null,"code":${code}}}`,
  )

const usage = (tokens: number) =>
  `"usage":{"prompt_tokens":${tokens},"total_tokens":${tokens},"completion_tokens":0,"prompt_tokens_details":null}`

const classified = (score: string, tokens: number) =>
  text(
    200,
    `{"id":"classify-1","object":"list","created":1795337406,"model":"rm","data":[{"index":0,"label":"LABEL_0","probs":[${score}],"num_classes":1}],${usage(tokens)}}`,
  )

const pooled = (data: string) =>
  text(
    200,
    `{"id":"pool-1","object":"list","created":1795337406,"model":"rm","data":[{"index":0,"object":"pooling","data":${data}}],${usage(8)}}`,
  )

const scoredPair = text(
  200,
  `{"id":"score-1","object":"list","created":1795337406,"model":"rm","data":[{"index":0,"object":"score","score":5.387810707092285}],${usage(6)}}`,
)

/** The rows of a process reward model in vLLM 0.14.0. /classify returns the last row. */
const TOKEN_ROWS =
  '[[-2.0666351318359375],[0.38901782035827637],[-7.546170234680176],[-6.185636043548584],[-3.625654697418213],[-4.239351749420166],[-4.439819812774658],[0.5668504238128662]]'

const NO_TEMPLATE =
  'As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one.'

const noTemplate = text(
  400,
  `{"error":{"message":"${NO_TEMPLATE}","type":"BadRequestError","param":null,"code":400}}`,
)

const byForm = (whenMessages: FakeHandler, whenText: FakeHandler): FakeHandler => {
  return (call, response) =>
    (JSON.parse(call.body).messages === undefined ? whenText : whenMessages)(call, response)
}

const MISSING_INPUT = text(
  400,
  `{"error":{"message":"1 validation error:\\n  {'type': 'missing', 'loc': ('body', 'input'), 'msg': 'Field required', 'input': {}}","type":"BadRequestError","param":null,"code":400}}`,
)

const noSuchModel = text(
  404,
  '{"error":{"message":"The model `nope` does not exist.","type":"NotFoundError","param":"model","code":404}}',
)

function server(version: string, table: Record<string, FakeHandler>): FakeHandler {
  return routes({
    'GET /v1/models': models('vllm', 'rm'),
    'GET /version': answer(200, { version }),
    ...table,
  })
}

/** In vLLM 0.11.0 and 0.14.0, every route exists for every model. */
const everyRoute = {
  'POST /classify': unsupported('Classification'),
  'POST /pooling': unsupported('Pooling'),
  'POST /score': unsupported('Score'),
  'POST /v1/embeddings': unsupported('Embeddings'),
  'POST /v1/chat/completions': unsupported('Chat Completions'),
}

export const recorded = {
  /** A reward model with one label. */
  rm11: server('0.11.0', {
    ...everyRoute,
    'POST /classify': byForm(MISSING_INPUT, classified('2.793051242828369', 8)),
    'POST /score': scoredPair,
    'POST /tokenize': text(
      200,
      '{"count":21,"max_model_len":1024,"tokens":[2,445],"token_strs":null}',
    ),
  }),
  rm32: server('0.32.0', {
    'POST /classify': byForm(
      classified('-4.016268730163574', 21),
      classified('2.7930519580841064', 8),
    ),
    'POST /pooling': pooled('[2.7930519580841064]'),
    'POST /score': scoredPair,
  }),
  /** The same reward model, requested by a name that it does not serve. */
  nope32: server('0.32.0', {
    'POST /classify': noSuchModel,
    'POST /pooling': text(
      400,
      '{"error":{"message":"Try switching the model\'s pooling_task via --pooler-config.task token_classify.","type":"BadRequestError","param":"task","code":400}}',
    ),
    'POST /score': noSuchModel,
  }),
  /** A process reward model (token classifier). */
  prm11: server('0.11.0', { ...everyRoute, 'POST /pooling': pooled(TOKEN_ROWS) }),
  prm14: server('0.14.0', {
    ...everyRoute,
    'POST /classify': classified('0.566849946975708', 8),
    'POST /pooling': pooled(TOKEN_ROWS),
    'POST /score': scoredPair,
  }),
  prm32: server('0.32.0', {
    'POST /classify': unsupported('Classification', 501, 501),
    'POST /pooling': pooled(TOKEN_ROWS),
  }),
  /** A cross-encoder, whose tokenizer has no chat template. */
  cross11: server('0.11.0', {
    ...everyRoute,
    'POST /classify': classified('0.3', 8),
    // These are hidden states. A real model returns as many numbers as its hidden size.
    'POST /pooling': pooled(JSON.stringify([Array.from({ length: 64 }, (_, i) => i / 64)])),
    'POST /score': scoredPair,
    'POST /tokenize': noTemplate,
  }),
  cross32: server('0.32.0', {
    'POST /classify': byForm(noTemplate, classified('0.3', 8)),
    'POST /pooling': byForm(noTemplate, pooled('[0.3]')),
    'POST /score': scoredPair,
  }),
  /** A reward model without a chat template, whose /score is not supported. */
  plain32: server('0.32.0', {
    'POST /classify': byForm(noTemplate, classified('3.3529019355773926', 7)),
    'POST /pooling': byForm(noTemplate, pooled('[3.3529019355773926]')),
    'POST /score': unsupported('Score', 501, 501),
  }),
  /** An embedding model, whose /score returns a cosine. */
  embedding32: server('0.32.0', {
    'POST /pooling': byForm(
      noTemplate,
      pooled(JSON.stringify(Array.from({ length: 64 }, (_, i) => i / 64))),
    ),
    'POST /score': scoredPair,
    'POST /v1/embeddings': answer(200, {}),
  }),
  judge14: server('0.14.0', { ...everyRoute, 'POST /v1/chat/completions': answer(200, {}) }),
  /** A dead engine behind a working HTTP server. */
  dead14: server('0.14.0', {
    ...everyRoute,
    'POST /classify': text(
      200,
      '{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}',
    ),
  }),
}
