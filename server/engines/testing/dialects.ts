import type { EngineName, EngineTarget, ScoreInput } from '../engine.ts'

export interface ScoringDialect {
  path: string
  /** The text to score in a request: prompt, newline, response. */
  textOf(body: Record<string, unknown>): string
  /** The fields of the body that request the raw score of one whole text. */
  raw: Record<string, unknown>
  /** A response with one score; `literal` is the JSON of the score. */
  one(literal: string): string
  two: string
  none: string
  tooLong: [status: number, body: unknown][]
  /** Absent if the engine accepts only one text per request. */
  microBatch?: {
    target: EngineTarget
    texts(body: Record<string, unknown>): string[]
    body(scores: string[]): string
  }
}

export const DIALECTS: Readonly<Record<EngineName, ScoringDialect | null>> = {
  vllm: {
    path: '/classify',
    textOf: (body) =>
      (body.messages as { content: string }[]).map((turn) => turn.content).join('\n'),
    raw: { use_activation: false, add_special_tokens: false },
    one: (literal) =>
      `{"id":"classify-1","object":"list","data":[{"index":0,"label":"LABEL_0","probs":[${literal}],"num_classes":1}],"usage":{"prompt_tokens":7}}`,
    two: '{"data":[{"index":0,"probs":[1]},{"index":1,"probs":[2]}]}',
    none: '{"data":[{"index":0,"probs":[]}]}',
    tooLong: [
      [
        400,
        {
          error: {
            message:
              "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the input for classification. Please reduce the length of the input.",
            type: 'BadRequestError',
            param: 'input_tokens',
            code: 400,
          },
        },
      ],
      [
        400,
        {
          object: 'error',
          message:
            'The decoder prompt (length 5000) is longer than the maximum model length of 4096.',
        },
      ],
    ],
    microBatch: {
      // An old version, because newer versions receive conversations, one per request, and no micro-batches.
      target: { model: 'rm', version: '0.11.2', basePath: '' },
      texts: (body) => body.input as string[],
      body: (scores) =>
        `{"data":[${scores.map((score, i) => `{"index":${i},"probs":[${score}]}`)}],"usage":{"prompt_tokens":21}}`,
    },
  },
  sglang: {
    path: '/v1/embeddings',
    textOf: (body) => body.input as string,
    raw: { model: 'rm' },
    one: (literal) =>
      `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[${literal}]}],"usage":{"prompt_tokens":7}}`,
    two: '{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[2]}]}',
    none: '{"data":[{"index":0,"embedding":[]}]}',
    tooLong: [
      [
        400,
        {
          object: 'error',
          message:
            "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        },
      ],
      [400, { object: 'error', message: 'Requested token count exceeds the model’s limit' }],
    ],
    microBatch: {
      target: { model: 'rm', version: null, basePath: '' },
      texts: (body) => body.input as string[],
      body: (scores) =>
        `{"data":[${scores.map((score, i) => `{"index":${i},"embedding":[${score}]}`)}],"usage":{"prompt_tokens":21}}`,
    },
  },
  tei: {
    path: '/predict',
    textOf: (body) => (body.inputs as string[][])[0]?.[0] as string,
    raw: { raw_scores: true, truncate: false },
    one: (literal) => `[[{"score":${literal},"label":"LABEL_0"}]]`,
    two: '[[{"score":1,"label":"LABEL_0"}],[{"score":2,"label":"LABEL_0"}]]',
    none: '[[]]',
    tooLong: [
      [
        422,
        {
          error: 'Input validation error: `inputs` must have less than 512 tokens. Given: 700',
          error_type: 'Validation',
        },
      ],
      [
        422,
        {
          error: '`inputs` must have less than 20000 characters. Given: 21000',
          error_type: 'Validation',
        },
      ],
    ],
    microBatch: {
      target: { model: 'rm', version: null, basePath: '' },
      texts: (body) => (body.inputs as string[][]).flat(),
      body: (scores) => `[${scores.map((score) => `[{"score":${score},"label":"LABEL_0"}]`)}]`,
    },
  },
  llamacpp: {
    path: '/rerank',
    textOf: (body) => `${body.query}\n${(body.documents as string[])[0]}`,
    raw: { model: 'rm' },
    one: (literal) =>
      `{"model":"rm","object":"list","usage":{"prompt_tokens":7,"total_tokens":7},"results":[{"index":0,"relevance_score":${literal}}]}`,
    two: '{"results":[{"index":1,"relevance_score":1},{"index":0,"relevance_score":2}]}',
    none: '{"results":[]}',
    tooLong: [
      [
        400,
        {
          error: {
            code: 400,
            message: 'the request exceeds the available context size, try increasing it',
            type: 'exceed_context_size_error',
            n_prompt_tokens: 5000,
            n_ctx: 4096,
          },
        },
      ],
      [
        500,
        {
          error: {
            code: 500,
            message:
              'input (596 tokens) is too large to process. increase the physical batch size (current batch size: 512)',
            type: 'server_error',
          },
        },
      ],
    ],
  },
  openai: null,
  openrlhf: {
    path: '/get_reward',
    textOf: (body) => (body.query as string[])[0] as string,
    raw: { labels: [null] },
    one: (literal) => `{"rewards":[${literal}],"scores":[0.5],"extra_logs":{}}`,
    two: '{"rewards":[1,2]}',
    none: '{"rewards":[]}',
    tooLong: [[400, { detail: 'text exceeds the context length' }]],
  },
  http: {
    path: '/',
    textOf: (body) => {
      const [sample] = body.samples as { prompt: ScoreInput['prompt']; solutionStr: string }[]
      const prompt = sample?.prompt as ScoreInput['prompt']
      const before =
        typeof prompt === 'string' ? prompt : prompt.map((turn) => turn.content ?? '').join('\n')
      return `${before}\n${sample?.solutionStr}`
    },
    raw: {},
    one: (literal) => `{"results":[{"score":${literal}}]}`,
    two: '{"results":[{"score":1},{"score":2}]}',
    none: '{"results":[]}',
    tooLong: [[400, { error: { code: 'context_length_exceeded', message: 'too many tokens' } }]],
  },
}

export function dialectOf(engine: EngineName): ScoringDialect {
  const dialect = DIALECTS[engine]
  if (dialect === null) throw new Error(`${engine} servers return no scores`)
  return dialect
}
