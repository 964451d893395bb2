import type { Answer, Call } from '../call.ts'
import type { Simulation } from '../simulation.ts'
import { before } from './versions.ts'
import {
  invalidBody,
  SECOND_WORDS_SINCE,
  THIRD_WORDS_SINCE,
  unknownModel,
  vllmError,
  wrongMediaType,
} from './vllm-errors.ts'
import type { VllmBody } from './vllm-requests.ts'

export function errorAnswer(
  simulation: Simulation,
  status: number,
  type: string,
  message: string,
  param: string | null = null,
): Answer {
  return vllmError(simulation.settings.version, status, type, message, param)
}

/** The body as an object; null if an error was answered. `isServed`: whether the route serves the model. */
export function readBody(simulation: Simulation, call: Call, isServed = true): VllmBody | null {
  const { version, model: served } = simulation.settings
  const refuse = (answer: Answer) => {
    call.send(answer)
    return null
  }
  if (!call.headers['content-type']?.startsWith('application/json')) {
    return refuse(wrongMediaType(version))
  }
  const body = call.json()
  if (body === undefined) {
    const rule = { type: 'json_invalid', field: '1', message: 'JSON decode error' } as const
    return refuse(invalidBody(version, [rule]))
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    const message = 'Input should be a valid dictionary or object to extract fields from'
    const rule = { type: 'model_attributes_type', field: '', message } as const
    // vLLM reports one error per accepted form of the body.
    const forms = FORMS.find(([path]) => call.path.endsWith(path))?.[1] ?? 1
    const known = before(version, SECOND_WORDS_SINCE) ? 1 : forms
    return refuse(invalidBody(version, Array(known).fill(rule)))
  }
  const { model } = body as VllmBody
  // vLLM checks the model name only on routes that serve the model.
  if (typeof model === 'string' && model !== served && isServed)
    return refuse(unknownModel(version, model))
  return body as VllmBody
}

/** Number of request schemas that a route accepts: completion, chat and, on /pooling, plugin. */
const FORMS: [path: string, forms: number][] = [
  ['/pooling', 3],
  ['/classify', 2],
]

function usageOf(version: string, tokens: number): string {
  const since = before(version, THIRD_WORDS_SINCE) ? '' : ',"completion_tokens_details":null'
  return `{"prompt_tokens":${tokens},"total_tokens":${tokens},"completion_tokens":0,"prompt_tokens_details":null${since}}`
}

/** The answer when the engine aborts a pooling request, which vLLM's output handler does not expect. */
export function aborted(simulation: Simulation): Answer {
  return errorAnswer(simulation, 500, 'InternalServerError', 'EngineGenerateError: aborted')
}

export function listAnswer(
  simulation: Simulation,
  name: string,
  data: string[],
  tokens: number,
): Answer {
  const { model, version } = simulation.settings
  const created = Math.floor(Date.now() / 1000)
  return {
    status: 200,
    body: `{"id":"${name}-${created.toString(16)}","object":"list","created":${created},"model":${JSON.stringify(model)},"data":[${data.join(',')}],"usage":${usageOf(version, tokens)}}`,
  }
}
