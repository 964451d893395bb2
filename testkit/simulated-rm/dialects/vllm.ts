import { type Call, json } from '../call.ts'
import type { Simulation } from '../simulation.ts'
import { countTokens, pairOf, pairOfMessages, tokenLogitOf, tokenTexts } from '../text.ts'
import { chatCompletions, type RefuseRequest } from './chat-completions.ts'
import type { Dialect, Handler } from './dialect.ts'
import { before, type Release } from './versions.ts'
import { aborted, errorAnswer, listAnswer, readBody } from './vllm-answers.ts'
import {
  badRequest,
  engineDead,
  invalidBody,
  missing,
  SECOND_WORDS_SINCE,
  THIRD_WORDS_SINCE,
  tooLong,
  unsupported,
} from './vllm-errors.ts'
import { lifecycle, metrics } from './vllm-lifecycle.ts'
import {
  activatedBy,
  labelsBy,
  NO_TEMPLATE,
  readPairs,
  readRanking,
  readTexts,
  type VllmBody,
} from './vllm-requests.ts'

/** Before this version, every route exists for every model, and unsupported routes answer 200 with `error.code`. */
const ROUTES_BY_MODEL_SINCE = THIRD_WORDS_SINCE
/** From this version to {@link ROUTES_BY_MODEL_SINCE}, every classifier scores both whole texts and tokens. */
const BOTH_TASKS_SINCE = SECOND_WORDS_SINCE

function tasksOf({ settings: { version, serves } }: Simulation): { text: boolean; token: boolean } {
  const both = !before(version, BOTH_TASKS_SINCE) && before(version, ROUTES_BY_MODEL_SINCE)
  const scores = serves !== 'generate'
  return {
    text: scores && (both || serves !== 'token'),
    token: scores && (both || serves === 'token'),
  }
}

function classify(simulation: Simulation): Handler {
  return (call) => {
    const body = readBody(simulation, call)
    if (body === null) return
    if (!tasksOf(simulation).text) {
      refuseUnsupported(simulation, call, body, 'Classification')
      return
    }
    const read = readTexts(simulation, body, 'classification')
    if ('refused' in read) {
      call.send(read.refused)
      return
    }
    simulation.run(call, read.jobs, (outcome) => {
      if (outcome.abortedAt !== null) return aborted(simulation)
      const scored = simulation.scored(read.jobs, outcome)
      const data = scored.map(({ index, logit, write }) => {
        const labels = labelsBy(simulation.settings, body, logit)
        const top = labels.indexOf(Math.max(...labels))
        return `{"index":${index},"label":"LABEL_${top}","probs":[${labels.map(write).join(',')}],"num_classes":${labels.length}}`
      })
      return listAnswer(simulation, 'classify', data, read.tokens)
    })
  }
}

function refuseUnsupported(
  simulation: Simulation,
  call: Call,
  body: VllmBody,
  api: 'Classification' | 'Pooling' | 'Score' | 'Embeddings' | 'Chat Completions',
): void {
  const { version } = simulation.settings
  const needed =
    api === 'Score' ? ['text_1', 'text_2'] : api === 'Chat Completions' ? ['messages'] : []
  const absent = needed.filter((name) => (body as Record<string, unknown>)[name] === undefined)
  if (absent.length > 0) {
    call.send(invalidBody(version, absent.map(missing)))
    return
  }
  if (needed.length === 0 && body.input === undefined && body.messages === undefined) {
    const fields = api === 'Pooling' ? ['input', 'messages', 'data'] : ['input', 'messages']
    const known =
      api === 'Classification' && before(version, SECOND_WORDS_SINCE) ? ['input'] : fields
    call.send(invalidBody(version, known.map(missing)))
    return
  }
  call.send(unsupported(version, api))
}

function pooling(simulation: Simulation): Handler {
  return (call) => {
    const { serves, version } = simulation.settings
    const tasks = tasksOf(simulation)
    // In 0.11.0, /pooling serves token classifiers only.
    const isServed = before(version, BOTH_TASKS_SINCE) ? tasks.token : serves !== 'generate'
    const body = readBody(simulation, call, isServed)
    if (body === null) return
    if (!isServed) {
      refuseUnsupported(simulation, call, body, 'Pooling')
      return
    }
    const current = !before(version, ROUTES_BY_MODEL_SINCE)
    const { task } = body
    const refuse = (message: string, param: string | null) =>
      call.send(errorAnswer(simulation, 400, 'BadRequestError', message, param))
    // 0.14.0 returns the score of every token unless the request asks for the text's score.
    const own = tasks.token ? 'token_classify' : 'classify'
    const allowed = [
      ...(tasks.text ? ['classify'] : []),
      ...(tasks.token ? ['token_classify'] : []),
    ]
    if (typeof task === 'string' && !allowed.includes(task)) {
      refuse(
        task === 'classify' || task === 'token_classify'
          ? `Try switching the model's pooling_task via --pooler-config.task ${task}. (parameter=task)`
          : `Unsupported task: '${task}' Supported tasks: ['token_classify', 'classify'] (parameter=task)`,
        'task',
      )
      return
    }
    const perToken = tasks.token && (task ?? own) === 'token_classify'
    if (body.dimensions !== undefined && body.dimensions !== null) {
      refuse('dimensions is currently not supported', 'dimensions')
      return
    }
    const read = readTexts(simulation, body, 'pooling')
    if ('refused' in read) {
      call.send(read.refused)
      return
    }
    const number = activatedBy(simulation.settings, body)
    simulation.run(call, read.jobs, (outcome) => {
      if (outcome.abortedAt !== null) return aborted(simulation)
      const scored = simulation.scored(read.jobs, outcome)
      const data = scored.map(({ index, job, logit, weights, write }) => {
        const numbers = perToken
          ? Array.from({ length: job.tokens }, (_, i) =>
              i === job.tokens - 1 ? logit : tokenLogitOf(job.id, weights, i),
            ).map(number)
          : labelsBy(simulation.settings, body, logit)
        return `{"index":${index},"object":"pooling","data":${pooled(numbers, perToken, body, write)}}`
      })
      return listAnswer(simulation, current ? 'pooling' : 'pool', data, read.tokens)
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
    if (!tasksOf(simulation).text) {
      refuseUnsupported(simulation, call, body, 'Score')
      return
    }
    const read = readPairs(simulation, body)
    if ('refused' in read) {
      call.send(read.refused)
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
    const { version } = simulation.settings
    const body = readBody(simulation, call)
    if (body === null) return
    const read = readRanking(simulation, body)
    if ('refused' in read) {
      call.send(read.refused)
      return
    }
    if (!tasksOf(simulation).text) {
      call.send(unsupported(version, 'Rerank (Score)'))
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
          `{"index":${index},"document":{"text":${JSON.stringify(read.documents[index] ?? '')},"multi_modal":null},"relevance_score":${write(number(logit))}}`,
      )
      const { model } = simulation.settings
      const name = before(version, THIRD_WORDS_SINCE) ? 'rerank' : 'score'
      const prompt = before(version, SECOND_WORDS_SINCE) ? '' : `"prompt_tokens":${read.tokens},`
      return {
        status: 200,
        body: `{"id":"${name}-${read.jobs[0]?.id}","model":${JSON.stringify(model)},"usage":{${prompt}"total_tokens":${read.tokens}},"results":[${results.join(',')}]}`,
      }
    })
  }
}

function tokenize(simulation: Simulation): Handler {
  return (call) => {
    const body = readBody(simulation, call) as
      | (VllmBody & { prompt?: unknown; return_token_strs?: unknown })
      | null
    if (body === null) return
    const { version, hasChatTemplate, charsPerToken, maxModelLen } = simulation.settings
    const messages = pairOfMessages(body.messages)
    if (messages !== null && !hasChatTemplate) {
      call.send(badRequest(version, NO_TEMPLATE))
      return
    }
    const pair = messages ?? pairOf(String(body.prompt ?? ''))
    const count = countTokens(`${pair.prompt} ${pair.response}`, charsPerToken)
    const tokens = Array.from({ length: count }, (_, i) => i)
    const token_strs = body.return_token_strs === true ? tokenTexts(pair, count) : null
    call.send(json(200, { count, max_model_len: maxModelLen, tokens, token_strs }))
  }
}

function refuseChat(simulation: Simulation): RefuseRequest {
  const { version, model, maxModelLen } = simulation.settings
  const isCurrent = !before(version, THIRD_WORDS_SINCE)
  return (what, message, tokens) => {
    if (what === 'model') {
      const aliases = isCurrent ? ` Valid aliases: ${model}.` : ''
      return errorAnswer(simulation, 404, 'NotFoundError', message + aliases, 'model')
    }
    if (what === 'context' && isCurrent) {
      return tooLong(version, 'input', tokens?.prompt ?? 0, maxModelLen)
    }
    const param = what === 'context' ? 'input_tokens' : null
    return errorAnswer(simulation, 400, 'BadRequestError', message, param)
  }
}

/** Since this version, token classifiers have the route /classify again, which answers 501. */
const TOKEN_CLASSIFY_SINCE: Release = [0, 32, 0]

/** vLLM. Since 0.16 a route answers 404 unless the model's task supports it. */
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
  requiresKey: (path) => /^\/(?:v1|v2|inference|cohere)(?:\/|$)/.test(path),
  deadAnswer: (as, path, { settings }) => engineDead(settings.version, as, path),
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
    const health: Handler = (call) =>
      call.send({ status: simulation.faults.engineDead?.share === 1 ? 503 : 200, body: '' })
    const routes: Record<string, Handler> = {
      'GET /health': health,
      'GET /ping': empty,
      'POST /ping': empty,
      'GET /version': (call) => call.send(json(200, { version })),
      'GET /load': (call) => {
        const load = simulation.reportedLoad()
        if (load === null) call.send(json(404, { detail: 'Not Found' }))
        else call.send(json(200, { server_load: load.running + load.waiting }))
      },
      'GET /v1/models': (call) => call.send(json(200, modelList(simulation))),
      'GET /metrics': metrics(simulation),
    }
    if (canSleep) Object.assign(routes, lifecycle(simulation))
    const chats: Handler = (call) => {
      const generates = serves === 'generate'
      const body = readBody(simulation, call, !generates)
      if (body === null) return
      if (generates && body.messages === undefined) {
        call.send(invalidBody(version, [missing('messages')]))
      } else if (generates) chatCompletions(simulation, call, refuseChat(simulation))
      else refuseUnsupported(simulation, call, body, 'Chat Completions')
    }
    const embeds: Handler = (call) => {
      const body = readBody(simulation, call)
      if (body !== null) refuseUnsupported(simulation, call, body, 'Embeddings')
    }
    const all = before(version, ROUTES_BY_MODEL_SINCE)
    routes['POST /tokenize'] = tokenize(simulation)
    if (all || serves === 'generate') routes['POST /v1/chat/completions'] = chats
    if (all) routes['POST /v1/embeddings'] = embeds
    if (!all && serves === 'generate') return routes
    routes['POST /pooling'] = pooling(simulation)
    if (all || serves !== 'token' || !before(version, TOKEN_CLASSIFY_SINCE)) {
      routes['POST /classify'] = classify(simulation)
    }
    if (!all && serves === 'token') return routes
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
