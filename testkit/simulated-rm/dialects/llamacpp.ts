import { type Answer, json } from '../call.ts'
import type { ServerSettings } from '../options.ts'
import type { Job, Simulation } from '../simulation.ts'
import { countTokens, labelLogits, pairOf, softmax, textId } from '../text.ts'
import { chatCompletions } from './chat-completions.ts'
import type { Dialect, Handler } from './dialect.ts'
import { exposition } from './prometheus.ts'

const CODES = {
  invalid_request_error: 400,
  authentication_error: 401,
  not_found_error: 404,
  server_error: 500,
  not_supported_error: 501,
  unavailable_error: 503,
  exceed_context_size_error: 400,
}

function errorAnswer(type: keyof typeof CODES, message: string, more: object = {}): Answer {
  const code = CODES[type]
  return json(code, { error: { code, message, type, ...more } })
}

function contextExceeded(tokens: number, limit: number): Answer {
  return errorAnswer(
    'exceed_context_size_error',
    `request (${tokens} tokens) exceeds the available context size (${limit} tokens), try increasing it`,
    { n_prompt_tokens: tokens, n_ctx: limit },
  )
}

/** The error of a text that is too long; null if it fits. An encoder answers 500 beyond its physical batch size. */
function tooLong(simulation: Simulation, tokens: number): Answer | null {
  const { maxModelLen, physicalBatch } = simulation.settings
  if (physicalBatch !== null && tokens > physicalBatch) {
    return errorAnswer(
      'server_error',
      `input (${tokens} tokens) is too large to process. increase the physical batch size (current batch size: ${physicalBatch})`,
    )
  }
  return tokens > maxModelLen ? contextExceeded(tokens, maxModelLen) : null
}

/** The answer to a body that is not JSON. A real server names the actual position and cause of the syntax error. */
const BAD_JSON = errorAnswer(
  'invalid_request_error',
  "[json.exception.parse_error.101] parse error at line 1, column 3: syntax error while parsing object key - invalid literal; last read: '{no'; expected string literal",
)

const LOADING = errorAnswer('unavailable_error', 'Loading model')

/** The rank head's output for label 0: the logit, or for Qwen3 heads the softmax. */
function rankOf(logit: number, { labels, activation }: ServerSettings): number {
  const logits = labelLogits(logit, labels)
  return (activation === 'softmax' ? softmax(logits) : logits)[0] as number
}

/** Ranks texts by the rank head's output, in Jina's form with `documents` and in TEI's form with `texts`. */
function rerank(simulation: Simulation): Handler {
  return (call) => {
    const { settings } = simulation
    if (settings.serves === 'generate') {
      const hint = 'This server does not support reranking. Start it with `--reranking`'
      call.send(errorAnswer('not_supported_error', hint))
      return
    }
    const body = call.json() as Record<string, unknown> | null | undefined
    if (body === undefined) {
      call.send(BAD_JSON)
      return
    }
    if (typeof body?.query !== 'string') {
      call.send(errorAnswer('invalid_request_error', '"query" must be provided'))
      return
    }
    const documents = body.documents ?? body.texts
    if (!Array.isArray(documents) || documents.length === 0) {
      const message = '"documents" must be a non-empty string array'
      call.send(errorAnswer('invalid_request_error', message))
      return
    }
    const model = JSON.stringify(body.model ?? settings.model)
    const jobs: Job[] = []
    for (const document of documents) {
      const job = jobOf(simulation, body.query, String(document))
      const refused = tooLong(simulation, job.tokens)
      if (refused !== null) {
        call.send(refused)
        return
      }
      jobs.push(job)
    }
    simulation.run(call, jobs, (outcome) => {
      const ranked = simulation
        .scored(jobs, outcome)
        .map((row) => ({ ...row, rank: rankOf(row.logit, settings) }))
        .sort((a, b) => b.rank - a.rank)
        .slice(0, Number(body.top_n) || undefined)
      if (body.documents === undefined) {
        const ranks = ranked.map(({ index, rank, write }) => {
          const text =
            body.return_text === true ? `,"text":${JSON.stringify(documents[index])}` : ''
          return `{"index":${index},"score":${nullForNan(write(rank))}${text}}`
        })
        return { status: 200, body: `[${ranks.join(',')}]` }
      }
      const results = ranked.map(
        ({ index, rank, write }) =>
          `{"index":${index},"relevance_score":${nullForNan(write(rank))}}`,
      )
      const tokens = jobs.reduce((sum, job) => sum + job.tokens, 0)
      return {
        status: 200,
        body: `{"model":${model},"object":"list","usage":{"prompt_tokens":${tokens},"total_tokens":${tokens}},"results":[${results.join(',')}]}`,
      }
    })
  }
}

/** llama.cpp's JSON library writes NaN as null. */
const nullForNan = (text: string) => (text === 'NaN' ? 'null' : text)

function jobOf(simulation: Simulation, prompt: string, response: string): Job {
  const { charsPerToken } = simulation.settings
  const tokens = countTokens(`${prompt} ${response}`, charsPerToken)
  const promptTokens = prompt === '' ? 0 : Math.min(tokens, countTokens(prompt, charsPerToken))
  return { id: textId(prompt, response), prompt, response, promptTokens, tokens }
}

/**
 * Answers with embeddings. They are L2-normalized, so a single number becomes its sign. The native route can omit the
 * normalization.
 */
function embedding(simulation: Simulation, native: boolean): Handler {
  return (call) => {
    if (simulation.settings.serves === 'generate') {
      const hint = 'This server does not support embeddings. Start it with `--embeddings`'
      call.send(errorAnswer('not_supported_error', hint))
      return
    }
    const body = call.json() as Record<string, unknown> | null | undefined
    const text = native ? body?.content : body?.input
    if (typeof text !== 'string') {
      const message = `"${native ? 'content' : 'input'}" must be a text`
      call.send(errorAnswer('invalid_request_error', message))
      return
    }
    const { prompt, response } = pairOf(text)
    const job = jobOf(simulation, prompt, response)
    const refused = tooLong(simulation, job.tokens)
    if (refused !== null) {
      call.send(refused)
      return
    }
    const raw = native && body?.embd_normalize === -1
    simulation.run(call, [job], (outcome) => {
      const numbers = simulation
        .scored([job], outcome)
        .map(({ logit, write }) => nullForNan(write(raw ? logit : Math.sign(logit))))
      if (native) {
        const entries = numbers.map((number, i) => `{"index":${i},"embedding":[[${number}]]}`)
        return { status: 200, body: `[${entries.join(',')}]` }
      }
      const data = numbers.map(
        (number, i) => `{"object":"embedding","index":${i},"embedding":[${number}]}`,
      )
      return {
        status: 200,
        body: `{"model":${JSON.stringify(simulation.settings.model)},"object":"list","usage":{"prompt_tokens":${job.tokens},"total_tokens":${job.tokens}},"data":[${data.join(',')}]}`,
      }
    })
  }
}

function slots(simulation: Simulation): Handler {
  return (call) => {
    const load = simulation.reportedLoad()
    if (load === null) {
      const hint = 'This server does not support slots endpoint. Start it with `--slots`'
      call.send(errorAnswer('not_supported_error', hint))
      return
    }
    const { running: total, maxModelLen } = simulation.settings
    if (call.query.has('fail_on_no_slot') && load.running >= total) {
      call.send(errorAnswer('unavailable_error', 'no slot available'))
      return
    }
    const list = Array.from({ length: total }, (_, id) => ({
      id,
      n_ctx: maxModelLen,
      speculative: false,
      is_processing: id < load.running,
      ...(id < load.running ? { id_task: id } : {}),
    }))
    call.send(json(200, list))
  }
}

/** llama.cpp's server. `running` is its number of slots. Every route answers 503 while the model loads. */
export const llamacpp: Dialect = {
  name: 'llamacpp',
  defaults: {
    serves: 'pair',
    version: 'b7000-simulated',
    running: 4,
    idleCloseMs: null,
    healthDelayMs: 0,
    autoTruncate: false,
  },
  abortsRunning: true,
  requiresKey: (path) => !['/health', '/v1/health', '/models', '/v1/models', '/'].includes(path),
  nanAnswer: () => null,
  refusal(refusal) {
    switch (refusal) {
      case 'error':
        return errorAnswer('server_error', 'simulated failure')
      case 'full':
        return errorAnswer('unavailable_error', 'no slot available')
      case 'limited':
        return json(429, {
          error: { code: 429, message: 'too many requests', type: 'unavailable_error' },
        })
      case 'unauthorized':
        return errorAnswer('authentication_error', 'Invalid API Key')
      default:
        return errorAnswer('not_found_error', 'File Not Found')
    }
  },
  routes(simulation) {
    const { serves, model, version, activation } = simulation.settings
    const health: Handler = (call) => call.send(json(200, { status: 'ok' }))
    const models: Handler = (call) =>
      call.send(
        json(200, {
          object: 'list',
          data: [
            {
              id: model,
              object: 'model',
              created: Math.floor(simulation.startedAtMs / 1000),
              owned_by: 'llamacpp',
              meta: { n_ctx_train: simulation.settings.maxModelLen, n_params: 0 },
            },
          ],
        }),
      )
    const routes: Record<string, Handler> = {
      'GET /health': health,
      'GET /v1/health': health,
      'GET /v1/models': models,
      'GET /models': models,
      'GET /props': (call) =>
        call.send(
          json(200, {
            default_generation_settings: { n_ctx: simulation.settings.maxModelLen },
            total_slots: simulation.settings.running,
            model_path: `simulated/${model}.gguf`,
            build_info: version,
            is_sleeping: simulation.asleep,
          }),
        ),
      'GET /slots': slots(simulation),
      'GET /metrics': (call) => {
        const load = simulation.reportedLoad()
        if (load === null) {
          const hint = 'This server does not support metrics endpoint. Start it with `--metrics`'
          call.send(errorAnswer('not_supported_error', hint))
        } else {
          call.send(
            exposition([
              ['llamacpp:requests_processing', 'gauge', load.running],
              ['llamacpp:requests_deferred', 'gauge', load.waiting],
            ]),
          )
        }
      },
      'POST /v1/chat/completions': (call) =>
        // A reranker made from a language model can generate text; an encoder cannot.
        serves === 'generate' || activation === 'softmax'
          ? chatCompletions(simulation, call, (what, message, tokens) =>
              what === 'context' && tokens !== undefined
                ? contextExceeded(tokens.prompt, tokens.limit)
                : errorAnswer('invalid_request_error', message),
            )
          : call.send(
              errorAnswer(
                'server_error',
                'the current context does not support logits computation. skipping',
              ),
            ),
      'POST /v1/embeddings': embedding(simulation, false),
      'POST /embedding': embedding(simulation, true),
    }
    for (const path of ['/rerank', '/reranking', '/v1/rerank', '/v1/reranking']) {
      routes[`POST ${path}`] = rerank(simulation)
    }
    const loaded =
      (handler: Handler): Handler =>
      (call) =>
        simulation.loading ? call.send(LOADING) : handler(call)
    return Object.fromEntries(
      Object.entries(routes).map(([route, handler]) => [route, loaded(handler)]),
    )
  },
}
