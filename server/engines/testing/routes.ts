import { answer, type FakeHandler } from './fake-server.ts'

/**
 * Returns a handler for the given routes, such as `'GET /v1/models'`. A query is compared only if the route has one.
 * Other requests are answered as FastAPI does: 404, or 405 for the wrong method.
 */
export function routes(table: Record<string, FakeHandler>): FakeHandler {
  return (call, response) => {
    const path = call.path.split('?', 1)[0] as string
    const handler = table[`${call.method} ${call.path}`] ?? table[`${call.method} ${path}`]
    if (handler !== undefined) return handler(call, response)
    const other = Object.keys(table).some((route) => route.endsWith(` ${path}`))
    const [status, detail] = other ? [405, 'Method Not Allowed'] : [404, 'Not Found']
    return answer(status, { detail })(call, response)
  }
}

/**
 * Returns a handler that answers with an OpenAI-style model list. The n-th model has a max context of n × 4,096 tokens.
 */
export function models(owner: string, ...ids: string[]): FakeHandler {
  return answer(200, {
    object: 'list',
    data: ids.map((id, i) => ({
      id,
      object: 'model',
      owned_by: owner,
      max_model_len: 4096 * (i + 1),
    })),
  })
}
