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

/**
 * Returns the scoring route: the path of the URL, as in OpenRLHF's `--reward.remote_url`, or serve_rm's route if the
 * URL has no path.
 */
function scorePath(basePath: string | undefined): string {
  return basePath === undefined || basePath === '' ? '/get_reward' : basePath
}

function buildScoreRequest(input: ScoreInput, target: EngineTarget): EngineRequest {
  return {
    path: scorePath(target.basePath),
    // serve_rm reads only `query`. Other servers for --reward.remote_url also read the other lists.
    body: JSON.stringify({
      // The text has special tokens, like a text from OpenRLHF's trainer, because the server adds none.
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
  // Training uses `rewards`; `scores` is only for filtering.
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

/** Probes by scoring a short text, because serve_rm does not identify itself. */
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
      reason: unready ? 'server_unreachable' : 'server_not_recognized',
      cause: unready ? 'not_ready' : 'unknown_server',
      message: `POST ${request.path} with an OpenRLHF query failed: ${answer.detail}`,
      hint: 'Give the URL that OpenRLHF would get as --reward.remote_url, its path included.',
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

/** OpenRLHF's serve_rm, and custom servers for its --reward.remote_url. */
export const openrlhf: Engine = {
  name: 'openrlhf',
  scores: true,
  chats: false,
  selfTested: false,
  templated: true,
  routes: [],
  labels: null,
  paths: new Set(),
  lifecycle: null,
  buildScoreRequest,
  parseScoreResponse,
  // Custom servers may score the samples of a list relative to each other (ranks, normalized scores).
  microBatch: null,
  readLoad: async () => null,
  probe,
  modelOwner: null,
  detect: async (fetch, context) => {
    const result = await probe(fetch, context)
    return result.ok || result.reason === 'server_unreachable' ? result : null
  },
}
