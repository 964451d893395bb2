import { request } from 'undici'
import type {
  EngineFailure,
  EngineName,
  EngineScore,
  EngineTarget,
  ResponseHeaders,
  ScoreInput,
} from '../../../server/engines/engine.ts'
import { engineOf } from '../../../server/engines/registry.ts'
import type { SimulatedServer } from '../server.ts'

export interface HttpAnswer {
  status: number
  headers: ResponseHeaders
  text: string
}

export async function ask(
  server: Pick<SimulatedServer, 'url'>,
  path: string,
  body?: unknown,
  init: { signal?: AbortSignal; method?: 'GET' | 'POST' | 'PUT'; key?: string } = {},
): Promise<HttpAnswer> {
  const headers: Record<string, string> = { 'content-type': 'application/json' }
  if (init.key !== undefined) headers.authorization = `Bearer ${init.key}`
  const response = await request(server.url + path, {
    method: init.method ?? (body === undefined ? 'GET' : 'POST'),
    headers,
    body: body === undefined ? null : JSON.stringify(body),
    signal: init.signal ?? null,
  })
  return {
    status: response.statusCode,
    headers: response.headers as ResponseHeaders,
    text: await response.body.text(),
  }
}

/** Like {@link ask}, but returns the answer's JSON. @throws with the answer for a status other than `status` */
export async function askJson<T = Record<string, unknown>>(
  server: Pick<SimulatedServer, 'url'>,
  path: string,
  body?: unknown,
  status = 200,
): Promise<T> {
  const answer = await ask(server, path, body)
  if (answer.status !== status) throw new Error(`${path} answered ${answer.status}: ${answer.text}`)
  return JSON.parse(answer.text) as T
}

export async function scoreBy(
  name: EngineName,
  server: Pick<SimulatedServer, 'url'>,
  input: ScoreInput,
  target: Partial<EngineTarget> = {},
): Promise<EngineScore | EngineFailure> {
  const engine = engineOf(name)
  const whole: EngineTarget = { model: 'simulated-rm', version: null, basePath: '', ...target }
  const call = engine.buildScoreRequest(input, whole)
  const answer = await ask(server, call.path, JSON.parse(String(call.body)))
  return engine.parseScoreResponse(answer.status, answer.headers, answer.text, whole)
}
