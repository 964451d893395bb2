import { type Answer, type Call, json } from '../call.ts'
import type { Job, Outcome, Simulation } from '../simulation.ts'
import {
  countTokens,
  labelLogits,
  pairOf,
  sigmoid,
  softmax,
  type TextPair,
  textId,
} from '../text.ts'
import type { Dialect, Handler } from './dialect.ts'
import { exposition } from './prometheus.ts'

const STATUS = { validation: 422, backend: 424, overloaded: 429, empty: 400, unhealthy: 503 }

function errorAnswer(type: keyof typeof STATUS, message: string): Answer {
  return json(STATUS[type], { error: message, error_type: type })
}

const OVERLOADED = errorAnswer('overloaded', 'Model is overloaded')

/**
 * Reads inputs. A string is one text, a list of two strings is a pair, and a list of lists of one or two strings is a
 * batch.
 */
function readInputs(inputs: unknown): { pairs: TextPair[]; batch: boolean } | null {
  if (typeof inputs === 'string') return { pairs: [pairOf(inputs)], batch: false }
  if (!Array.isArray(inputs) || inputs.length === 0) return null
  const single = sequence(inputs)
  if (single !== null) return { pairs: [single], batch: false }
  const pairs = inputs.map(sequence)
  return pairs.every((pair) => pair !== null) ? { pairs, batch: true } : null
}

function sequence(value: unknown): TextPair | null {
  if (!Array.isArray(value) || value.length === 0 || value.length > 2) return null
  if (!value.every((text) => typeof text === 'string')) return null
  const [first, second] = value as string[]
  if (second === undefined) return pairOf(first as string)
  return { prompt: first as string, response: second }
}

/**
 * Converts texts to jobs. The request, or else the server's configuration, decides whether texts over the limit are
 * truncated or refused.
 */
function jobsOf(
  simulation: Simulation,
  pairs: readonly TextPair[],
  truncate: unknown,
): Job[] | Answer {
  const { maxModelLen, charsPerToken, autoTruncate } = simulation.settings
  const cut = typeof truncate === 'boolean' ? truncate : autoTruncate
  const jobs: Job[] = []
  for (let { prompt, response } of pairs) {
    let tokens = countTokens(`${prompt} ${response}`, charsPerToken)
    if (tokens > maxModelLen) {
      if (!cut) {
        return errorAnswer(
          'validation',
          `Input validation error: \`inputs\` must have less than ${maxModelLen} tokens. Given: ${tokens}`,
        )
      }
      const text = prompt === '' ? response : `${prompt}\n${response}`
      ;({ prompt, response } = pairOf(text.slice(0, Math.floor(maxModelLen * charsPerToken))))
      tokens = maxModelLen
    }
    const promptTokens = prompt === '' ? 0 : Math.min(tokens, countTokens(prompt, charsPerToken))
    jobs.push({ id: textId(prompt, response), prompt, response, promptTokens, tokens })
  }
  return jobs
}

/** Processes the inputs that get a permit. If an input gets none, the answer is 429, after the others are processed. */
function runWithPermits(
  simulation: Simulation,
  call: Call,
  jobs: readonly Job[],
  finish: (outcome: Outcome) => Answer,
): void {
  const startedAtMs = performance.now()
  const permits = Math.max(0, simulation.settings.permits - simulation.textsTaken)
  const taken = jobs.slice(0, permits)
  if (taken.length === 0) {
    const record = simulation.ledger.began(
      call.route,
      jobs.map((job) => job.id),
    )
    call.onEnd((end) => record(end === 'answered' ? 'refused' : end, call.status, 0))
    call.send(OVERLOADED)
    return
  }
  simulation.run(call, taken, (outcome) => {
    if (taken.length < jobs.length) return OVERLOADED
    const totalMs = String(Math.round(performance.now() - startedAtMs))
    return {
      ...finish(outcome),
      headers: {
        'x-compute-type': 'simulated',
        'x-compute-time': totalMs,
        'x-compute-tokens': String(jobs.reduce((sum, job) => sum + job.tokens, 0)),
        'x-total-time': totalMs,
        'x-queue-time': '0',
        'x-inference-time': totalMs,
      },
    }
  })
}

function bodyOf(call: Call): Record<string, unknown> | null {
  const body = call.json()
  if (typeof body === 'object' && body !== null && !Array.isArray(body)) {
    return body as Record<string, unknown>
  }
  call.send({ status: 422, body: 'Failed to deserialize the JSON body', type: 'text/plain' })
  return null
}

function predict(simulation: Simulation): Handler {
  return (call) => {
    const body = bodyOf(call)
    if (body === null) return
    const read = readInputs(body.inputs)
    if (read === null) {
      call.send({
        status: 422,
        body: 'Failed to deserialize the JSON body: inputs',
        type: 'text/plain',
      })
      return
    }
    const { maxClientBatchSize } = simulation.settings
    if (read.pairs.length > maxClientBatchSize) {
      call.send(
        errorAnswer(
          'validation',
          `batch size ${read.pairs.length} > maximum allowed batch size ${maxClientBatchSize}`,
        ),
      )
      return
    }
    const jobs = jobsOf(simulation, read.pairs, body.truncate)
    if (!Array.isArray(jobs)) {
      call.send(jobs)
      return
    }
    const number = numberOf(simulation, body)
    runWithPermits(simulation, call, jobs, (outcome) => {
      const predictions = simulation.scored(jobs, outcome).map(({ logit, write }) => {
        const logits = labelLogits(logit, simulation.settings.labels)
        // Activated scores are a softmax over several labels, or the sigmoid of one.
        const activated = logits.length > 1 && number(1) !== 1
        const scores = activated ? softmax(logits) : logits.map(number)
        const entries = scores.map((score, i) => ({ score, i })).sort((a, b) => b.score - a.score)
        return `[${entries.map(({ score, i }) => `{"score":${write(score)},"label":"LABEL_${i}"}`).join(',')}]`
      })
      const one = !read.batch && predictions.length === 1
      return { status: 200, body: one ? (predictions[0] as string) : `[${predictions.join(',')}]` }
    })
  }
}

function rerank(simulation: Simulation): Handler {
  return (call) => {
    const body = bodyOf(call)
    if (body === null) return
    const { query, texts } = body
    if (typeof query !== 'string' || !Array.isArray(texts)) {
      call.send({ status: 422, body: 'Failed to deserialize the JSON body', type: 'text/plain' })
      return
    }
    const { serves, maxClientBatchSize } = simulation.settings
    if (texts.length === 0) return call.send(errorAnswer('empty', '`texts` cannot be empty'))
    if (serves !== 'pair') {
      return call.send(errorAnswer('backend', 'model is not a re-ranker model'))
    }
    if (texts.length > maxClientBatchSize) {
      const message = `batch size ${texts.length} > maximum allowed batch size ${maxClientBatchSize}`
      return call.send(errorAnswer('validation', message))
    }
    const pairs = texts.map((text) => ({ prompt: query, response: String(text) }))
    const jobs = jobsOf(simulation, pairs, body.truncate)
    if (!Array.isArray(jobs)) {
      call.send(jobs)
      return
    }
    const number = numberOf(simulation, body)
    runWithPermits(simulation, call, jobs, (outcome) => {
      const ranked = simulation.scored(jobs, outcome).sort((a, b) => b.logit - a.logit)
      const ranks = ranked.map(({ index, logit, write }) => {
        const text = body.return_text === true ? `,"text":${JSON.stringify(texts[index])}` : ''
        return `{"index":${index}${text},"score":${write(number(logit))}}`
      })
      return { status: 200, body: `[${ranks.join(',')}]` }
    })
  }
}

/** The function from logit to score: identity or sigmoid, as `raw_scores` says unless `activation` overrides it. */
function numberOf(
  { settings }: Simulation,
  body: Record<string, unknown>,
): (logit: number) => number {
  const wantsRaw = body.raw_scores === true
  const raw = {
    ...{ version: wantsRaw, honored: wantsRaw, softmax: wantsRaw },
    ...{ ignored: false, inverted: !wantsRaw, identity: true },
  }
  return raw[settings.activation] ? (logit) => logit : sigmoid
}

/** HuggingFace's text-embeddings-inference. */
export const tei: Dialect = {
  name: 'tei',
  defaults: {
    serves: 'classify',
    version: '1.8.3',
    running: 512,
    idleCloseMs: null,
    healthDelayMs: 0,
    autoTruncate: true,
  },
  abortsRunning: false,
  requiresKey: (path) => path !== '/health' && path !== '/metrics',
  nanAnswer: () => errorAnswer('backend', 'score is NaN'),
  refusal(refusal) {
    switch (refusal) {
      case 'error':
        return errorAnswer('backend', 'Inference failed')
      case 'full':
        return errorAnswer('unhealthy', 'unhealthy')
      case 'limited':
        return OVERLOADED
      case 'unauthorized':
        return { status: 401, body: '', type: 'text/plain' }
      case 'method':
        return { status: 405, body: '', type: 'text/plain' }
      default:
        return { status: 404, body: '', type: 'text/plain' }
    }
  },
  routes(simulation) {
    const { serves, model, version } = simulation.settings
    const healthy: Handler = (call) => call.send({ status: 200, body: '', type: 'text/plain' })
    return {
      'GET /': healthy,
      'GET /health': healthy,
      'GET /ping': healthy,
      'GET /info': (call) => {
        const { settings } = simulation
        const names = Array.from({ length: settings.labels }, (_, i) => `LABEL_${i}`)
        const labels = {
          id2label: Object.fromEntries(names.map((name, i) => [i, name])),
          label2id: Object.fromEntries(names.map((name, i) => [name, i])),
        }
        call.send(
          json(200, {
            model_id: model,
            model_sha: null,
            model_dtype: 'float32',
            model_type: serves === 'pair' ? { reranker: labels } : { classifier: labels },
            max_concurrent_requests: settings.permits,
            max_input_length: settings.maxModelLen,
            max_batch_tokens: 16_384,
            max_batch_requests: null,
            max_client_batch_size: settings.maxClientBatchSize,
            auto_truncate: settings.autoTruncate,
            tokenization_workers: 1,
            version,
          }),
        )
      },
      'GET /metrics': (call) => {
        const load = simulation.reportedLoad()
        if (load === null) call.send({ status: 404, body: '', type: 'text/plain' })
        else {
          call.send(
            exposition([
              ['te_queue_size', 'gauge', load.waiting],
              ['te_batch_next_size', 'gauge', load.running],
            ]),
          )
        }
      },
      'POST /predict': predict(simulation),
      'POST /rerank': rerank(simulation),
    }
  },
}
