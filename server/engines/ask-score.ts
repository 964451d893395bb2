import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineScore,
  EngineTarget,
  ScoreInput,
} from './engine.ts'

/** A score, or the failure. `routeMissing`: the server has no such route. */
export type Asked = EngineScore | (EngineFailure & { routeMissing?: boolean })

/** Requests the score of one text. Never rejects. */
export async function askScore(
  engine: Engine,
  fetch: EngineFetch,
  target: EngineTarget,
  input: ScoreInput,
): Promise<Asked> {
  try {
    const { path, body } = engine.buildScoreRequest(input, target)
    const reply = await fetch(path, { method: 'POST', body: String(body) })
    const answer = engine.parseScoreResponse(reply.status, reply.headers, reply.bodyText, target)
    return answer.ok ? answer : { ...answer, routeMissing: [404, 405].includes(reply.status) }
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    return { ok: false, class: 'fault', reason: 'transport', detail }
  }
}
