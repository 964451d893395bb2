import { z } from 'zod'
import { FaultChange } from './faults.ts'
import { LatencyText } from './latency.ts'

/** Protocols spoken. */
export const DIALECTS = ['vllm', 'sglang', 'tei', 'llamacpp', 'chat'] as const
export type DialectName = (typeof DIALECTS)[number]

/**
 * What the model is: `classify` one logit for a text, `token` one for each token (vLLM), `pair` a cross-encoder,
 * `generate` a language model that judges.
 */
export const SERVES = ['classify', 'token', 'pair', 'generate'] as const
export type Serves = (typeof SERVES)[number]

const count = z.coerce.number().int().min(0).max(1_000_000_000)
const ms = z.coerce.number().min(0).max(86_400_000)
const seed = z.coerce.number().int().min(0).max(0xffff_ffff)

/** What can also be changed while it runs. */
const changeable = {
  /** Tokens a second once saturated; null: tokens cost no time. */
  tokensPerSecond: z.coerce.number().positive().nullable(),
  /** Rows from which on the server is fully used. */
  saturation: count.min(1),
  /** Most rows worked on at once. */
  running: count.min(1),
  /** Multiplies the speed: 0.35 is a slow server. */
  speed: z.coerce.number().positive(),
  /** Time of a row beside its tokens: `constant:20`, `uniform:10,50`, `lognormal:median,sigma`, `exponential:mean`. */
  latency: LatencyText,
  /** This share of the texts takes `slowMs` instead of the latency. */
  slowShare: z.coerce.number().min(0).max(1),
  slowMs: ms,
  /** Latencies and faults are drawn anew for each request (`arrival`), or follow from the text and stay the same (`text`). */
  drawBy: z.enum(['arrival', 'text']),
  /** The raw score: by the hash of the text and the weights, by the linear model of `features.ts`, or always 0.5. */
  score: z.enum(['hash', 'features', 'constant']),
  /** Prompts in the prefix cache; 0: none. */
  prefixGroups: count,
  /** Between two tokens of a written reply. */
  tokenDelayMs: ms,
  /** Seed of the weights: other weights, other scores. */
  weights: seed,
  /** The server refuses with its "queue is full" beyond so many rows; null: never. */
  maxQueued: count.nullable(),
  /** Idle connections are closed after so long; null: never. */
  idleCloseMs: ms.nullable(),
  /** What the load metrics say: the truth, −1, 0, 1e9, or 404. */
  metrics: z.enum(['true', 'negative', 'zero', 'absurd', 'missing']),
}

/** How a simulated server is made. Every field has a default; some follow from the dialect. */
export const ServerOptions = z.strictObject({
  dialect: z.enum(DIALECTS).default('vllm'),
  /** 0: a free one. */
  port: z.coerce.number().int().min(0).max(65_535).default(0),
  host: z.string().default('127.0.0.1'),
  model: z.string().min(1).default('simulated-rm'),
  serves: z.enum(SERVES).optional(),
  /** What the server says its version is; vLLM's decides which words and forms are read. */
  version: z.string().min(1).optional(),
  /** Asked for as `Authorization: Bearer …` where the engine asks for it; null: open. */
  apiKey: z.string().nullable().default(null),
  /** Labels of the model's head; 0: it has none. The score is the last one's logit; of two, the first has its negative. */
  labels: count.max(16).default(1),
  /** vLLM: the model has one, so that it takes conversations. By default a cross-encoder (`pair`) has none. */
  hasChatTemplate: z.stringbool().or(z.boolean()).optional(),
  /** vLLM: false answers /sleep with 200 and stays awake, as on a CPU. */
  sleeps: z.stringbool().or(z.boolean()).default(true),
  maxModelLen: count.min(1).default(32_768),
  charsPerToken: z.coerce.number().positive().default(3.6),
  /**
   * Whether a raw score can be had: by the words the version reads (`version`), by both (`honoured`), never
   * (`ignored`: always the sigmoid), the wrong way round (`inverted`), or always (`identity`). `softmax`: as llama.cpp
   * gives label 0's share of Qwen3 rank heads, 1 for every text where there is one label.
   */
  activation: z
    .enum(['version', 'honoured', 'ignored', 'inverted', 'identity', 'softmax'])
    .default('version'),
  /** The routes for sleep and wake are there (vLLM's development mode, SGLang's memory saver). */
  canSleep: z.stringbool().or(z.boolean()).default(true),
  sleepMs: ms.default(0),
  wakeMs: ms.default(0),
  /** TEI: inputs taken at once (`--max-concurrent-requests`). */
  permits: count.min(1).default(512),
  /** TEI: inputs in one request. */
  maxClientBatchSize: count.min(1).default(32),
  /** TEI, SGLang: texts over the limit are cut without a word. By default TEI does and SGLang does not. */
  autoTruncate: z.stringbool().or(z.boolean()).optional(),
  /** llama.cpp: an encoder refuses longer texts with 500 (`--ubatch-size`); null: the model is no encoder. */
  physicalBatch: count.min(1).nullable().default(null),
  /** llama.cpp: answers `Loading model` for so long after it starts. */
  loadingMs: ms.default(0),
  /** Before /health is answered; SGLang's takes a second. */
  healthDelayMs: ms.optional(),
  /** Tokens of a judge's reply, at least; the rating is at its end. */
  replyTokens: count.default(24),
  /** Of all draws. */
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
/** {@link ServerOptions} as given. */
export type ServerOptionsInput = z.input<typeof ServerOptions>
/** {@link ServerOptions} with the dialect's defaults filled in. */
export type ServerSettings = Required<Omit<z.output<typeof ServerOptions>, 'faults'>>

/** A change while it runs: `POST /__control`, or {@link SimulatedServer.control}. Unknown fields are refused. */
export const ControlChange = z
  .strictObject({
    ...changeable,
    /** By name; a share from 0 to 1 or an object with it; null: none of them any more. */
    faults: FaultChange.nullable(),
    /** From the start of the n-th scoring row from now on nothing is answered any more; 0: at once; null: it goes on. */
    hangAfterRows: count.nullable(),
    /** Listener and connections close after `afterMs`, and open again on the same port `forMs` later (null: on `revive`). */
    die: z.strictObject({ afterMs: ms.default(0), forMs: ms.nullable().default(null) }),
    revive: z.literal(true),
    /** Asleep as vLLM is: takes requests and does not answer them, until false. */
    asleep: z.boolean(),
    /** Forgets what was counted and recorded. */
    resetStats: z.literal(true),
  })
  .partial()
/** {@link ControlChange} as given. */
export type ControlChangeInput = z.input<typeof ControlChange>
