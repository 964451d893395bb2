import { failure, field, finiteScore, onlyElement, readJsonAnswer } from './answer.ts'
import type {
  Engine,
  EngineFailure,
  EngineFetch,
  EngineRequest,
  EngineScore,
  EngineTarget,
  ProbeContext,
  ProbeResult,
  ResponseHeaders,
  ScoreInput,
} from './engine.ts'
import { promptText, sampleText } from './sample-text.ts'

/** `--reward.remote_url` is the whole address of the POST; a bare origin means the route serve_rm itself has. */
function scorePath(basePath: string | undefined): string {
  return basePath === undefined || basePath === '' ? '/get_reward' : basePath
}

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  return {
    path: scorePath(target.basePath),
    // serve_rm reads `query` alone; servers written for --reward.remote_url read the lists beside it.
    body: JSON.stringify({
      // As its trainer sends it: special tokens kept, and the server adds none.
      query: [target.chatTemplate?.renderSample(input) ?? sampleText(input, target)],
      prompts: [promptText(input)],
      labels: [null],
    }),
  }
}

function parseScoreResponse(
  status: number,
  headers: ResponseHeaders,
  bodyText: string,
): EngineScore | EngineFailure {
  const answer = readJsonAnswer(status, headers, bodyText)
  if (!answer.ok) return answer
  // `rewards` is what trains; `scores`, where present, only filters.
  const rewards = field(answer.value, 'rewards')
  if (rewards === undefined) return failure('corrupt', 'unparseable', 'rewards is missing')
  let value: unknown = rewards
  if (Array.isArray(rewards)) {
    const only = onlyElement(rewards, 'rewards')
    if (!('item' in only)) return only
    value = only.item
  }
  const score = finiteScore(value, 'rewards[0]')
  return typeof score === 'number' ? { ok: true, score } : score
}

/** serve_rm tells nothing of itself, so the probe scores a short text and looks at the answer's shape. */
async function probe(fetch: EngineFetch, context: ProbeContext): Promise<ProbeResult> {
  const request = buildScoreRequest(
    { prompt: 'What is 1 + 1?', response: '2' },
    { model: null, version: null, basePath: context.basePath },
  )
  const reply = await fetch(request.path, { method: 'POST', body: request.body as string })
  const answer = parseScoreResponse(reply.status, reply.headers, reply.bodyText)
  if (!answer.ok && answer.reason !== 'non_finite') {
    const unready = answer.class === 'busy' || (answer.class === 'fault' && !answer.broken)
    return {
      ok: false,
      reason: unready ? 'server_unreachable' : 'server_not_recognised',
      cause: unready ? 'not_ready' : 'unknown_server',
      message: `POST ${request.path} with an OpenRLHF query ${answer.detail}`,
      hint: 'Give the address that OpenRLHF would get as --reward.remote_url, its path included.',
    }
  }
  return {
    ok: true,
    engine: 'openrlhf',
    models: [],
    version: null,
    maxModelLen: null,
    kind: 'discriminative',
    route: null,
    warnings: [],
  }
}

/** OpenRLHF's serve_rm, and what is written for its --reward.remote_url. */
export const openrlhf: Engine = {
  name: 'openrlhf',
  scores: true,
  chats: false,
  selfTested: false,
  templated: true,
  routes: [],
  labels: null,
  lifecycle: null,
  buildScoreRequest,
  parseScoreResponse,
  // What answers at --reward.remote_url is often somebody's own, and may score a list by itself (ranks, normalised scores).
  microBatch: null,
  readLoad: async () => null,
  probe,
}
