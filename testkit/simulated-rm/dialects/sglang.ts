import { type Answer, type Call, json } from '../call.ts'
import type { Job, Simulation } from '../simulation.ts'
import { countTokens, labelLogits, pairOf, type TextPair, textId } from '../text.ts'
import { chatCompletions } from './chat-completions.ts'
import type { Dialect, Handler } from './dialect.ts'
import { exposition } from './prometheus.ts'

/** Time that /health waits for its probe before it answers 503 (`SGLANG_HEALTH_CHECK_TIMEOUT`). */
const HEALTH_TIMEOUT_MS = 20_000

/** An error of SGLang's OpenAI routes, which is flat. Errors of its native routes are nested. */
function openAiError(status: number, message: string): Answer {
  const type = status < 500 ? 'BadRequestError' : 'InternalServerError'
  return json(status, { object: 'error', message, type, param: null, code: status })
}
function nativeError(status: number, message: string): Answer {
  return json(status, { error: { message } })
}

type ErrorOf = (status: number, message: string) => Answer

/** Reads texts or lists of token ids as jobs; null if an error was answered. */
function readJobs(
  simulation: Simulation,
  call: Call,
  value: unknown,
  errorOf: ErrorOf,
): Job[] | null {
  const { settings } = simulation
  const refuse = (message: string) => {
    call.send(errorOf(400, message))
    return null
  }
  if (settings.serves === 'generate') {
    return refuse('This model does not appear to be an embedding model by default.')
  }
  const list = typeof value === 'string' || isIds(value) ? [value] : value
  if (!Array.isArray(list) || list.length === 0) return refuse('Input cannot be empty')
  const jobs: Job[] = []
  for (const item of list) {
    if (typeof item !== 'string' && !isIds(item)) return refuse('Input should be a text or ids')
    const pair: TextPair =
      typeof item === 'string' ? pairOf(item) : { prompt: '', response: item.join(' ') }
    const job = jobOf(simulation, pair, typeof item === 'string' ? undefined : item.length)
    if (typeof job === 'string') return refuse(job)
    jobs.push(job)
  }
  return jobs
}

function jobOf(simulation: Simulation, pair: TextPair, known?: number): Job | string {
  const { maxModelLen, charsPerToken, autoTruncate } = simulation.settings
  let { prompt, response } = pair
  let tokens = known ?? countTokens(`${prompt} ${response}`, charsPerToken)
  if (tokens > maxModelLen) {
    if (!autoTruncate) {
      return `The input (${tokens} tokens) is longer than the model's context length (${maxModelLen} tokens).`
    }
    // Truncation removes the end of the response.
    const text = prompt === '' ? response : `${prompt}\n${response}`
    ;({ prompt, response } = pairOf(text.slice(0, Math.floor(maxModelLen * charsPerToken))))
    tokens = maxModelLen
  }
  const promptTokens = prompt === '' ? 0 : Math.min(tokens, countTokens(prompt, charsPerToken))
  return { id: textId(prompt, response), prompt, response, promptTokens, tokens }
}

function isIds(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((id) => Number.isSafeInteger(id))
}

function bodyOf(call: Call, errorOf: ErrorOf): Record<string, unknown> | null {
  const body = call.json()
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) {
    return body as Record<string, unknown>
  }
  call.send(errorOf(400, 'the body is not a JSON object'))
  return null
}

const total = (jobs: readonly Job[]) => jobs.reduce((sum, job) => sum + job.tokens, 0)

function embeddings(simulation: Simulation): Handler {
  return (call) => {
    const body = bodyOf(call, openAiError)
    if (body === null) return
    const jobs = readJobs(simulation, call, body.input, openAiError)
    if (jobs === null) return
    simulation.run(call, jobs, (outcome) => {
      const data = simulation
        .scored(jobs, outcome)
        .map(
          ({ index, logit, write }) =>
            `{"object":"embedding","index":${index},"embedding":[${labelLogits(logit, simulation.settings.labels).map(write).join(',')}]}`,
        )
      const tokens = total(jobs)
      return {
        status: 200,
        body: `{"object":"list","model":${JSON.stringify(simulation.settings.model)},"data":[${data.join(',')}],"usage":{"prompt_tokens":${tokens},"total_tokens":${tokens},"completion_tokens":0}}`,
      }
    })
  }
}

/**
 * Answers the native route, which takes `text` or `input_ids`. The answer is an object for one text and a list for
 * several.
 */
function classify(simulation: Simulation): Handler {
  return (call) => {
    const body = bodyOf(call, nativeError)
    if (body === null) return
    const given = body.text ?? body.input_ids
    if (given === undefined) {
      call.send(nativeError(400, 'Either text or input_ids must be provided.'))
      return
    }
    const jobs = readJobs(simulation, call, given, nativeError)
    if (jobs === null) return
    const atMs = performance.now()
    simulation.run(call, jobs, (outcome) => {
      const latency = (performance.now() - atMs) / 1000
      const entries = simulation
        .scored(jobs, outcome)
        .map(
          ({ job, logit, write }) =>
            `{"embedding":[${write(logit)}],"meta_info":{"id":"${job.id}","finish_reason":{"type":"stop","matched":null},"prompt_tokens":${job.tokens},"e2e_latency":${latency}}}`,
        )
      const single = typeof given === 'string' || isIds(given)
      return {
        status: 200,
        body: single && entries.length === 1 ? (entries[0] as string) : `[${entries.join(',')}]`,
      }
    })
  }
}

/** Answers 1 for every text, because SGLang applies a softmax to the single label. */
function v1Classify(simulation: Simulation): Handler {
  return (call) => {
    const body = bodyOf(call, openAiError)
    if (body === null) return
    const jobs = readJobs(simulation, call, body.input, openAiError)
    if (jobs === null) return
    simulation.run(call, jobs, (outcome) => {
      const data = simulation
        .scored(jobs, outcome)
        .map(
          ({ index, write }) =>
            `{"index":${index},"label":"LABEL_0","probs":[${write(1).replace('1', '1.0')}],"num_classes":1}`,
        )
      const tokens = total(jobs)
      return {
        status: 200,
        body: `{"id":"classify-${jobs[0]?.id}","object":"list","created":${Math.floor(Date.now() / 1000)},"model":${JSON.stringify(simulation.settings.model)},"data":[${data.join(',')}],"usage":{"prompt_tokens":${tokens},"total_tokens":${tokens},"completion_tokens":0}}`,
      }
    })
  }
}

/** Scores items for a query. A classification model returns its raw logits and ignores the named labels. */
function score(simulation: Simulation): Handler {
  return (call) => {
    const body = bodyOf(call, openAiError)
    if (body === null) return
    const { query } = body
    const items = typeof body.items === 'string' ? [body.items] : body.items
    if (typeof query !== 'string' || !Array.isArray(items) || items.length === 0) {
      call.send(openAiError(400, 'query and items are required'))
      return
    }
    const jobs: Job[] = []
    for (const item of items) {
      const job = jobOf(simulation, { prompt: query, response: String(item) })
      if (typeof job === 'string') {
        call.send(openAiError(400, job))
        return
      }
      jobs.push(job)
    }
    simulation.run(call, jobs, (outcome) => {
      const scores = simulation.scored(jobs, outcome).map(({ logit, write }) => `[${write(logit)}]`)
      const tokens = total(jobs)
      return {
        status: 200,
        body: `{"scores":[${scores.join(',')}],"model":${JSON.stringify(simulation.settings.model)},"usage":{"prompt_tokens":${tokens},"total_tokens":${tokens}},"object":"scoring"}`,
      }
    })
  }
}

/** Answers like SGLang's health check, which sends a probe through the engine and fails without output. */
function health(simulation: Simulation): Handler {
  return (call) => {
    const { healthDelayMs } = simulation.settings
    const hangs = simulation.hanging || simulation.asleep
    const timer = setTimeout(
      () => call.send({ status: hangs ? 503 : 200, body: '', type: 'text/plain' }),
      hangs ? Math.max(HEALTH_TIMEOUT_MS, healthDelayMs) : healthDelayMs,
    )
    call.onEnd(() => clearTimeout(timer))
  }
}

function loads(simulation: Simulation): Handler {
  return (call) => {
    const load = simulation.reportedLoad()
    if (load === null) {
      call.send(json(404, { detail: 'Not Found' }))
      return
    }
    const { settings } = simulation
    call.send(
      json(200, {
        timestamp: new Date().toISOString(),
        version: settings.version,
        dp_rank_count: 1,
        loads: [
          {
            dp_rank: 0,
            num_running_reqs: load.running,
            num_waiting_reqs: load.waiting,
            num_waiting_uncached_tokens: 0,
            num_used_tokens: 0,
            num_total_tokens: 0,
            max_total_num_tokens: 1_000_000,
            max_running_requests: settings.running,
            token_usage: 0,
            gen_throughput: 0,
            cache_hit_rate: 0,
            utilization: 0,
          },
        ],
      }),
    )
  }
}

/** Routes that release and resume memory. Releasing memory ends the process unless the scheduler is idle. */
function lifecycle(simulation: Simulation): Record<string, Handler> {
  const tagsOf = (call: Call): string[] | null => {
    const tags = (call.json() as { tags?: unknown } | null | undefined)?.tags
    return Array.isArray(tags) ? tags.map(String) : null
  }
  const objectBody = (call: Call): boolean => {
    if (call.body !== '' && typeof call.json() === 'object') return true
    call.send(json(400, { error: { message: 'a JSON object is required as the body' } }))
    return false
  }
  const release: Handler = (call) => {
    simulation.ledger.lifecycle(call.route)
    if (!objectBody(call)) return
    if (simulation.textsTaken > 0) {
      simulation.crash()
      return
    }
    simulation.sleep('keep', 1).then(() => call.send(json(200, null)))
  }
  const resume: Handler = (call) => {
    simulation.ledger.lifecycle(call.route)
    if (!objectBody(call)) return
    if (!simulation.asleep) {
      call.send(json(500, { error: { message: 'Internal server error: nothing was released' } }))
      return
    }
    simulation.wake(tagsOf(call)).then(() => call.send(json(200, null)))
  }
  return {
    'POST /release_memory_occupation': release,
    'GET /release_memory_occupation': release,
    'POST /resume_memory_occupation': resume,
    'GET /resume_memory_occupation': resume,
  }
}

/** SGLang, launched with --is-embedding unless it generates. */
export const sglang: Dialect = {
  name: 'sglang',
  defaults: {
    serves: 'classify',
    version: '0.5.9',
    running: 256,
    idleCloseMs: 5000,
    healthDelayMs: 1000,
    autoTruncate: false,
  },
  abortsRunning: true,
  requiresKey: (path) => !path.startsWith('/health') && path !== '/metrics',
  nanAnswer: () => null,
  refusal(refusal) {
    switch (refusal) {
      case 'error':
        return openAiError(500, 'Internal server error: simulated')
      case 'full':
        return openAiError(503, 'The request queue is full.')
      case 'limited':
        return openAiError(429, 'Too many requests')
      case 'unauthorized':
        return json(401, { error: 'Unauthorized' })
      case 'method':
        return json(405, { detail: 'Method Not Allowed' })
      default:
        return json(404, { detail: 'Not Found' })
    }
  },
  routes(simulation) {
    const { serves, version, model, canSleep } = simulation.settings
    const modelInfo: Handler = (call) =>
      call.send(
        json(200, {
          model_path: `simulated/${model}`,
          tokenizer_path: `simulated/${model}`,
          is_generation: serves === 'generate',
          weight_version: 'default',
          model_type: 'simulated',
          architectures: [
            serves === 'generate' ? 'SimulatedForCausalLM' : 'SimulatedForRewardModel',
          ],
        }),
      )
    const serverInfo: Handler = (call) => {
      const { settings } = simulation
      call.send(
        json(200, {
          model_path: `simulated/${model}`,
          served_model_name: model,
          allow_auto_truncate: settings.autoTruncate,
          enable_memory_saver: canSleep,
          enable_priority_scheduling: false,
          is_embedding: serves !== 'generate',
          max_running_requests: settings.running,
          max_queued_requests: settings.maxQueued,
          context_length: settings.maxModelLen,
          internal_states: [],
          version,
        }),
      )
    }
    const routes: Record<string, Handler> = {
      'GET /health': health(simulation),
      'GET /health_generate': health(simulation),
      'GET /model_info': modelInfo,
      'GET /get_model_info': modelInfo,
      'GET /server_info': serverInfo,
      'GET /get_server_info': serverInfo,
      'GET /v1/models': (call) =>
        call.send(
          json(200, {
            object: 'list',
            data: [
              {
                id: model,
                object: 'model',
                created: Math.floor(simulation.startedAtMs / 1000),
                owned_by: 'sglang',
                root: `simulated/${model}`,
                max_model_len: simulation.settings.maxModelLen,
              },
            ],
          }),
        ),
      'GET /v1/loads': loads(simulation),
      'GET /metrics': (call) => {
        const load = simulation.reportedLoad()
        if (load === null) call.send(json(404, { detail: 'Not Found' }))
        else {
          call.send(
            exposition(
              [
                ['sglang:num_running_reqs', 'gauge', load.running],
                ['sglang:num_queue_reqs', 'gauge', load.waiting],
                ['sglang:token_usage', 'gauge', 0],
              ],
              { model_name: model },
            ),
          )
        }
      },
      'POST /v1/embeddings': embeddings(simulation),
      'POST /classify': classify(simulation),
      'PUT /classify': classify(simulation),
      'POST /encode': classify(simulation),
      'PUT /encode': classify(simulation),
      'POST /v1/classify': v1Classify(simulation),
      'POST /v1/score': score(simulation),
      'POST /v1/chat/completions': (call) =>
        serves === 'generate'
          ? chatCompletions(simulation, call, (what, message, tokens) =>
              openAiError(
                400,
                what === 'context'
                  ? `The input (${tokens?.prompt} tokens) is longer than the model's context length (${tokens?.limit} tokens).`
                  : message,
              ),
            )
          : call.send(openAiError(400, 'The model is an embedding model')),
    }
    if (canSleep) Object.assign(routes, lifecycle(simulation))
    return routes
  },
}
