import { z } from 'zod'
import { FaultChange } from './faults.ts'
import { LatencyText } from './latency.ts'

export const DIALECTS = ['vllm', 'sglang', 'tei', 'llamacpp', 'chat'] as const
export type DialectName = (typeof DIALECTS)[number]

/**
 * Type of the model. `classify`: one logit per text. `token`: one logit per token (vLLM). `pair`: a cross-encoder.
 * `generate`: a language model that judges.
 */
export const SERVES = ['classify', 'token', 'pair', 'generate'] as const
export type Serves = (typeof SERVES)[number]

const count = z.coerce.number().int().min(0).max(1_000_000_000)
const ms = z.coerce.number().min(0).max(86_400_000)
const seed = z.coerce.number().int().min(0).max(0xffff_ffff)

/** Settings that can also be changed while the server runs. */
const changeable = {
  /** Tokens per second at saturation. Null if tokens cost no time. */
  tokensPerSecond: z.coerce.number().positive().nullable(),
  /** Number of concurrent texts that use the full token rate. */
  saturation: count.min(1),
  running: count.min(1),
  /** Speed factor; 0.35 simulates a slow server. */
  speed: z.coerce.number().positive(),
  /**
   * Latency of a text, added to the time for its tokens: `constant:20`, `uniform:10,50`, `lognormal:median,sigma`,
   * `exponential:mean`.
   */
  latency: LatencyText,
  /** This share of the texts takes `slowMs` instead of the latency. */
  slowShare: z.coerce.number().min(0).max(1),
  slowMs: ms,
  /**
   * Whether latencies and faults are drawn for each request (`arrival`), or derived from the text, so that they are the
   * same each time (`text`).
   */
  drawBy: z.enum(['arrival', 'text']),
  /** Source of the raw score: a hash of the text and the weights, the linear model of `features.ts`, or always 0.5. */
  score: z.enum(['hash', 'features', 'constant']),
  /** Number of prompts in the prefix cache. 0 turns the cache off. */
  prefixGroups: count,
  /** Time between two tokens of a reply, in ms. */
  tokenDelayMs: ms,
  /** Seed of the weights; other weights give other scores. */
  weights: seed,
  /**
   * Maximum number of texts in progress or waiting. If more arrive, the server answers "queue is full". Null means
   * unlimited.
   */
  maxQueued: count.nullable(),
  /** Idle time after which a connection is closed, in ms, or null if idle connections stay open. */
  idleCloseMs: ms.nullable(),
  /** Load metrics that the server reports: the true values, −1, 0 or 1e9, or a 404 instead of metrics. */
  metrics: z.enum(['true', 'negative', 'zero', 'absurd', 'missing']),
}

/** Options of a simulated server. Every field has a default; some depend on the dialect. */
export const ServerOptions = z.strictObject({
  dialect: z.enum(DIALECTS).default('vllm'),
  /** Port to listen on. 0 selects a free port. */
  port: z.coerce.number().int().min(0).max(65_535).default(0),
  host: z.string().default('127.0.0.1'),
  model: z.string().min(1).default('simulated-rm'),
  serves: z.enum(SERVES).optional(),
  /** The reported version. For vLLM it decides which parameters and request formats are accepted. */
  version: z.string().min(1).optional(),
  /**
   * Key required as `Authorization: Bearer …` on the routes that the engine protects, or null if no key is required.
   */
  apiKey: z.string().nullable().default(null),
  /**
   * Number of labels of the model's head, or 0 if it has no head. The score is the last label's logit. With two labels,
   * the first label's logit is the negative of the score.
   */
  labels: count.max(16).default(1),
  /**
   * vLLM: whether the model has a chat template and therefore accepts conversations. By default, a cross-encoder
   * (`pair`) has none.
   */
  hasChatTemplate: z.stringbool().or(z.boolean()).optional(),
  /** vLLM: whether /sleep has an effect. If it has none, it still answers 200, as on a CPU. */
  sleeps: z.stringbool().or(z.boolean()).default(true),
  maxModelLen: count.min(1).default(32_768),
  charsPerToken: z.coerce.number().positive().default(3.6),
  /**
   * When the server returns raw scores instead of activated ones. `version`: as the engine's `version` reads the
   * request. `honored`: if the request asks for raw scores. `ignored`: never. `inverted`: if the request asks for
   * activated scores. `identity`: always. `softmax` (llama.cpp): the score is the softmax of label 0, as for Qwen3 rank
   * heads; with one label it is always 1.
   */
  activation: z
    .enum(['version', 'honored', 'ignored', 'inverted', 'identity', 'softmax'])
    .default('version'),
  /** Whether the sleep and wake routes exist (vLLM's development mode, SGLang's memory saver). */
  canSleep: z.stringbool().or(z.boolean()).default(true),
  sleepMs: ms.default(0),
  wakeMs: ms.default(0),
  /** TEI: maximum number of concurrent inputs (`--max-concurrent-requests`). */
  permits: count.min(1).default(512),
  /** TEI: maximum number of inputs per request. */
  maxClientBatchSize: count.min(1).default(32),
  /** TEI, SGLang: whether texts over the limit are silently truncated. By default TEI does and SGLang does not. */
  autoTruncate: z.stringbool().or(z.boolean()).optional(),
  /**
   * llama.cpp: an encoder answers 500 to a text with more tokens than this (`--ubatch-size`). Null if the model is
   * not an encoder.
   */
  physicalBatch: count.min(1).nullable().default(null),
  /** llama.cpp: how long the server answers `Loading model` after its start. */
  loadingMs: ms.default(0),
  /** Delay of /health; by default one second for SGLang. */
  healthDelayMs: ms.optional(),
  /** Minimum number of tokens of a judge's reply, which ends with the rating. */
  replyTokens: count.default(24),
  seed: seed.default(1),
  tokensPerSecond: changeable.tokensPerSecond.default(null),
  saturation: changeable.saturation.default(8),
  running: changeable.running.optional(),
  speed: changeable.speed.default(1),
  latency: changeable.latency.prefault('constant:0'),
  slowShare: changeable.slowShare.default(0),
  slowMs: changeable.slowMs.default(0),
  drawBy: changeable.drawBy.default('arrival'),
  score: changeable.score.default('hash'),
  prefixGroups: changeable.prefixGroups.default(0),
  tokenDelayMs: changeable.tokenDelayMs.default(0),
  weights: changeable.weights.default(1),
  maxQueued: changeable.maxQueued.default(null),
  idleCloseMs: changeable.idleCloseMs.optional(),
  metrics: changeable.metrics.default('true'),
  faults: FaultChange.optional(),
})
export type ServerOptionsInput = z.input<typeof ServerOptions>
/** {@link ServerOptions} with the dialect's defaults filled in. */
export type ServerSettings = Required<Omit<z.output<typeof ServerOptions>, 'faults'>>

/** A change at run time: `POST /__control`, or {@link SimulatedServer.control}. Unknown fields are refused. */
export const ControlChange = z
  .strictObject({
    ...changeable,
    /** Faults by name, each as a share from 0 to 1 or as an object with `share`. Null removes all faults. */
    faults: FaultChange.nullable(),
    /** The server stops answering when the n-th text from now starts. 0 stops it immediately, and null resumes. */
    hangAfterTexts: count.nullable(),
    /**
     * Closes the listener and its connections after `afterMs`, and listens again on the same port `forMs` later, or on
     * `revive` if `forMs` is null.
     */
    die: z.strictObject({ afterMs: ms.default(0), forMs: ms.nullable().default(null) }),
    revive: z.literal(true),
    /** Whether the server sleeps like vLLM: it then accepts requests without answering them. */
    asleep: z.boolean(),
    resetStats: z.literal(true),
  })
  .partial()
export type ControlChangeInput = z.input<typeof ControlChange>
