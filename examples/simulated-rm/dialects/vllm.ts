import { type Answer, type Call, json } from '../call.ts'
import type { Simulation } from '../simulation.ts'
import { tokenLogitOf } from '../text.ts'
import { chatCompletions, type RefuseRequest } from './chat-completions.ts'
import type { Dialect, Handler } from './dialect.ts'
import { exposition } from './prometheus.ts'
import { before, type Release } from './versions.ts'
import { activatedBy, readPairs, readTexts, type VllmBody } from './vllm-requests.ts'

/** The nested error body came with #22099, 2025-08-06. */
const NESTED_ERRORS_SINCE: Release = [0, 10, 1]

/** An error in the shape of that version. */
function errorAnswer(
  simulation: Simulation,
  status: number,
  type: string,
  message: string,
  param: string | null = null,
): Answer {
  const error = { message, type, param, code: status }
  if (before(simulation.settings.version, NESTED_ERRORS_SINCE)) {
    return json(status, { object: 'error', ...error })
  }
  return json(status, { error })
}

/** The body as an object, or the answer to one that is not. */
function readBody(simulation: Simulation, call: Call): VllmBody | null {
  const bad = (message: string) => {
    call.send(errorAnswer(simulation, 400, 'Bad Request', message))
    return null
  }
  if (!call.headers['content-type']?.startsWith('application/json')) {
    return bad("Unsupported Media Type: Only 'application/json' is allowed")
  }
  const body = call.json()
  if (body === undefined) return bad('JSON decode error')
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return bad('Input should be a valid dictionary')
  }
  const { model } = body as VllmBody
  if (typeof model === 'string' && model !== simulation.settings.model) {
    const message = `The model \`${model}\` does not exist.`
    call.send(errorAnswer(simulation, 404, 'NotFoundError', message, 'model'))
    return null
  }
  return body as VllmBody
}

function usageOf(tokens: number) {
  return {
    prompt_tokens: tokens,
    total_tokens: tokens,
    completion_tokens: 0,
    prompt_tokens_details: null,
  }
}

/** The front end of a pooling request whose engine gave it up: its output handler fails. */
function aborted(simulation: Simulation): Answer {
  return errorAnswer(simulation, 500, 'InternalServerError', 'EngineGenerateError: aborted')
}

function classify(simulation: Simulation): Handler {
  return (call) => {
    const body = readBody(simulation, call)
    if (body === null) return
    const read = readTexts(simulation, body)
    if ('refused' in read) {
      call.send(errorAnswer(simulation, 400, 'BadRequestError', read.refused, read.param))
      return
    }
    const number = activatedBy(simulation.settings, body)
    simulation.run(call, read.jobs, (outcome) => {
      if (outcome.abortedAt !== null) return aborted(simulation)
      const scored = simulation.scored(read.jobs, outcome)
      const data = scored.map(
        ({ index, logit, write }) =>
          `{"index":${index},"label":"LABEL_0","probs":[${write(number(logit))}],"num_classes":1}`,
      )
      return listAnswer(simulation, 'classify', data, read.tokens)
    })
  }
}

function pooling(simulation: Simulation): Handler {
  return (call) => {
    const body = readBody(simulation, call)
    if (body === null) return
    const perToken = simulation.settings.serves === 'token'
    const own = perToken ? 'token_classify' : 'classify'
    const refuse = (message: string, param: string | null) =>
      call.send(errorAnswer(simulation, 400, 'BadRequestError', message, param))
    if (typeof body.task === 'string' && body.task !== own) {
      refuse(
        `Task ${body.task} is not supported. Supported tasks: ['${own}']. Try switching the model's pooling_task via --pooler-config.task`,
        'task',
      )
      return
    }
    if (body.dimensions !== undefined && body.dimensions !== null) {
      refuse('dimensions is currently not supported', 'dimensions')
      return
    }
    const read = readTexts(simulation, body)
    if ('refused' in read) {
      refuse(read.refused, read.param)
      return
    }
    const number = activatedBy(simulation.settings, body)
    simulation.run(call, read.jobs, (outcome) => {
      if (outcome.abortedAt !== null) return aborted(simulation)
      const scored = simulation.scored(read.jobs, outcome)
      const data = scored.map(({ index, job, logit, weights, write }) => {
        const logits = perToken
          ? Array.from({ length: job.tokens }, (_, i) =>
              tokenLogitOf(job.id, weights, i, job.tokens),
            )
          : [logit]
        return `{"index":${index},"object":"pooling","data":${pooled(logits.map(number), perToken, body, write)}}`
      })
      return listAnswer(simulation, 'pool', data, read.tokens)
    })
  }
}

function pooled(
  numbers: number[],
  perToken: boolean,
  body: VllmBody,
  write: (value: number) => string,
): string {
  if (body.encoding_format === 'base64') {
    return JSON.stringify(Buffer.from(Float32Array.from(numbers).buffer).toString('base64'))
  }
  const last = numbers.length - 1
  const texts = numbers.map((value, i) => (i === last ? write(value) : String(value)))
  // orjson, unlike the encoder of /classify, writes NaN as null.
  const safe = texts.map((text) => (text === 'NaN' ? 'null' : text))
  return `[${(perToken ? safe.map((text) => `[${text}]`) : safe).join(',')}]`
}

function score(simulation: Simulation): Handler {
  return (call) => {
    const body = readBody(simulation, call)
    if (body === null) return
    const read = readPairs(simulation, body)
    if ('refused' in read) {
      call.send(errorAnswer(simulation, 400, 'BadRequestError', read.refused, read.param))
      return
    }
    const number = activatedBy(simulation.settings, body)
    simulation.run(call, read.jobs, (outcome) => {
      if (outcome.abortedAt !== null) return aborted(simulation)
      const scored = simulation.scored(read.jobs, outcome)
      const data = scored.map(
        ({ index, logit, write }) =>
          `{"index":${index},"object":"score","score":${write(number(logit))}}`,
      )
      return listAnswer(simulation, 'score', data, read.tokens)
    })
  }
}

function rerank(simulation: Simulation): Handler {
  return (call) => {
    const body = readBody(simulation, call)
    if (body === null) return
    const read = readPairs(simulation, { ...body, queries: body.query })
    if ('refused' in read) {
      call.send(errorAnswer(simulation, 400, 'BadRequestError', read.refused, read.param))
      return
    }
    const number = activatedBy(simulation.settings, body)
    simulation.run(call, read.jobs, (outcome) => {
      if (outcome.abortedAt !== null) return aborted(simulation)
      const ranked = simulation
        .scored(read.jobs, outcome)
        .sort((a, b) => b.logit - a.logit)
        .slice(0, Number(body.top_n) || undefined)
      const results = ranked.map(
        ({ index, logit, write }) =>
          `{"index":${index},"document":{"text":${JSON.stringify(read.documents[index] ?? '')}},"relevance_score":${write(number(logit))}}`,
      )
      const { model } = simulation.settings
      return {
        status: 200,
        body: `{"id":"rerank-${read.jobs[0]?.id}","model":${JSON.stringify(model)},"usage":{"prompt_tokens":${read.tokens},"total_tokens":${read.tokens}},"results":[${results.join(',')}]}`,
      }
    })
  }
}

function listAnswer(simulation: Simulation, name: string, data: string[], tokens: number): Answer {
  const { model } = simulation.settings
  const created = Math.floor(Date.now() / 1000)
  return {
    status: 200,
    body: `{"id":"${name}-${created.toString(16)}","object":"list","created":${created},"model":${JSON.stringify(model)},"data":[${data.join(',')}],"usage":${JSON.stringify(usageOf(tokens))}}`,
  }
}

function lifecycle(simulation: Simulation): Record<string, Handler> {
  const sleep: Handler = (call) => {
    simulation.ledger.lifecycle(call.route)
    const mode = call.query.get('mode') ?? 'abort'
    const level = Number(call.query.get('level') ?? 1)
    if (!['abort', 'wait', 'keep'].includes(mode) || ![0, 1, 2].includes(level)) {
      call.send(errorAnswer(simulation, 400, 'BadRequestError', 'no such mode or level'))
      return
    }
    simulation
      .sleep(mode as 'abort' | 'wait' | 'keep', level as 0 | 1 | 2)
      .then(() => call.send({ status: 200, body: '' }))
  }
  const wake: Handler = (call) => {
    simulation.ledger.lifecycle(call.route)
    const tags = call.query.getAll('tags')
    simulation.wake(tags.length > 0 ? tags : null).then(() => call.send({ status: 200, body: '' }))
  }
  return {
    'POST /sleep': sleep,
    'POST /wake_up': wake,
    'GET /is_sleeping': (call) => call.send(json(200, { is_sleeping: simulation.asleep })),
    'POST /collective_rpc': (call) => {
      const method = (call.json() as { method?: unknown } | null | undefined)?.method
      if (method === 'reload_weights') simulation.reloadWeights()
      call.send(json(200, { results: [null] }))
    },
  }
}

function metrics(simulation: Simulation): Handler {
  return (call) => {
    const load = simulation.toldLoad()
    if (load === null) {
      call.send(json(404, { detail: 'Not Found' }))
      return
    }
    const parts = simulation.asleepParts
    const state = !simulation.asleep
      ? 'awake'
      : parts.has('weights')
        ? 'weights_offloaded'
        : 'discard_all'
    const { cache } = simulation
    const sleepStates = ['awake', 'weights_offloaded', 'discard_all'].map(
      (name) =>
        ['vllm:engine_sleep_state', 'gauge', name === state ? 1 : 0, { sleep_state: name }] as [
          string,
          'gauge',
          number,
          Record<string, string>,
        ],
    )
    call.send(
      exposition(
        [
          ['vllm:num_requests_running', 'gauge', load.running],
          ['vllm:num_requests_waiting', 'gauge', load.waiting],
          ['vllm:kv_cache_usage_perc', 'gauge', 0],
          ...sleepStates,
          ['vllm:prefix_cache_queries_total', 'counter', cache.queryTokens],
          ['vllm:prefix_cache_hits_total', 'counter', cache.hitTokens],
          ['vllm:num_preemptions_total', 'counter', 0],
        ],
        { engine: '0', model_name: simulation.settings.model },
      ),
    )
  }
}

function refuseChat(simulation: Simulation): RefuseRequest {
  return (what, message) =>
    what === 'model'
      ? errorAnswer(simulation, 404, 'NotFoundError', message, 'model')
      : errorAnswer(
          simulation,
          400,
          'BadRequestError',
          message,
          what === 'context' ? 'input_tokens' : null,
        )
}

/** vLLM: routes are there where the model's task has them, and 404 otherwise. */
export const vllm: Dialect = {
  name: 'vllm',
  defaults: {
    serves: 'classify',
    version: '0.20.0',
    running: 256,
    idleCloseMs: 5000,
    healthDelayMs: 0,
    autoTruncate: false,
  },
  abortsRunning: true,
  needsKey: (path) => /^\/(?:v1|v2|inference|cohere)(?:\/|$)/.test(path),
  nanAnswer: () =>
    json(400, {
      error: {
        message: 'Out of range float values are not JSON compliant: nan',
        type: 'BadRequestError',
        param: null,
        code: 400,
      },
    }),
  refusal(refusal, simulation) {
    switch (refusal) {
      case 'error':
        return errorAnswer(simulation, 500, 'InternalServerError', 'EngineGenerateError')
      case 'full':
        return errorAnswer(simulation, 503, 'QueueOverflowError', 'The request queue is full.')
      case 'limited':
        return errorAnswer(simulation, 429, 'RateLimitError', 'Too many requests')
      case 'unauthorized':
        return json(401, { error: 'Unauthorized' })
      case 'method':
        return json(405, { detail: 'Method Not Allowed' })
      default:
        return json(404, { detail: 'Not Found' })
    }
  },
  routes(simulation) {
    const { serves, version, canSleep } = simulation.settings
    const empty: Handler = (call) => call.send({ status: 200, body: '', type: 'text/plain' })
    const routes: Record<string, Handler> = {
      'GET /health': empty,
      'GET /ping': empty,
      'POST /ping': empty,
      'GET /version': (call) => call.send(json(200, { version })),
      'GET /load': (call) => {
        const load = simulation.toldLoad()
        if (load === null) call.send(json(404, { detail: 'Not Found' }))
        else call.send(json(200, { server_load: load.running + load.waiting }))
      },
      'GET /v1/models': (call) => call.send(json(200, modelList(simulation))),
      'GET /metrics': metrics(simulation),
    }
    if (canSleep) Object.assign(routes, lifecycle(simulation))
    if (serves === 'generate') {
      routes['POST /v1/chat/completions'] = (call) => {
        if (readBody(simulation, call) !== null) {
          chatCompletions(simulation, call, refuseChat(simulation))
        }
      }
      return routes
    }
    routes['POST /pooling'] = pooling(simulation)
    if (serves === 'token') return routes
    routes['POST /classify'] = classify(simulation)
    for (const path of ['/score', '/v1/score']) routes[`POST ${path}`] = score(simulation)
    for (const path of ['/rerank', '/v1/rerank', '/v2/rerank']) {
      routes[`POST ${path}`] = rerank(simulation)
    }
    return routes
  },
}

function modelList(simulation: Simulation) {
  const { model, maxModelLen } = simulation.settings
  return {
    object: 'list',
    data: [
      {
        id: model,
        object: 'model',
        created: Math.floor(simulation.startedAtMs / 1000),
        owned_by: 'vllm',
        root: `simulated/${model}`,
        parent: null,
        max_model_len: maxModelLen,
        permission: [],
      },
    ],
  }
}
