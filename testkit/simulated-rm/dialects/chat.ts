import { type Answer, json } from '../call.ts'
import { chatCompletions } from './chat-completions.ts'
import type { Dialect } from './dialect.ts'

function errorAnswer(status: number, type: string, code: string | null, message: string): Answer {
  return json(status, { error: { message, type, param: null, code } })
}

/** A judge with OpenAI's chat completions only: no health, metrics or sleep routes. */
export const chat: Dialect = {
  name: 'chat',
  defaults: {
    serves: 'generate',
    version: 'none',
    running: 256,
    idleCloseMs: null,
    healthDelayMs: 0,
    autoTruncate: false,
  },
  abortsRunning: true,
  requiresKey: () => true,
  nanAnswer: () => null,
  refusal(refusal) {
    switch (refusal) {
      case 'error':
        return errorAnswer(500, 'server_error', null, 'The server had an error.')
      case 'full':
        return errorAnswer(503, 'server_error', null, 'The engine is currently overloaded.')
      case 'limited':
        return errorAnswer(429, 'requests', 'rate_limit_exceeded', 'Rate limit reached.')
      case 'unauthorized':
        return errorAnswer(
          401,
          'invalid_request_error',
          'invalid_api_key',
          'Incorrect API key provided.',
        )
      default:
        return errorAnswer(404, 'invalid_request_error', null, 'Invalid URL')
    }
  },
  routes(simulation) {
    return {
      'GET /v1/models': (call) =>
        call.send(
          json(200, {
            object: 'list',
            data: [
              {
                id: simulation.settings.model,
                object: 'model',
                created: Math.floor(simulation.startedAtMs / 1000),
                owned_by: 'simulated',
              },
            ],
          }),
        ),
      'POST /v1/chat/completions': (call) =>
        chatCompletions(simulation, call, (what, message) => {
          const code =
            what === 'context'
              ? 'context_length_exceeded'
              : what === 'model'
                ? 'model_not_found'
                : null
          const status = what === 'model' ? 404 : 400
          return errorAnswer(status, 'invalid_request_error', code, message)
        }),
    }
  },
}
