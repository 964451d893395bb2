import { z } from 'zod'
import type { SelfTestVerdict } from './self-test-verdict.ts'

/**
 * Most calls in flight, over all processes, of a server that was registered without `maxInFlight`: how many of them are
 * used is found by measuring. In the model the engines were saturated by 2 to 32.
 */
export const ADAPTIVE_MAX_IN_FLIGHT = 96

/** Most calls in flight of a server over all processes: as given, else up to what it says it takes at once. */
export function mostInFlight(maxInFlight: number | null, maxConcurrent: number | null): number {
  return maxInFlight ?? Math.min(ADAPTIVE_MAX_IN_FLIGHT, Math.max(1, maxConcurrent ?? Infinity))
}

/** Engines whose protocol is spoken; `auto` probes and finds out. */
export const ENGINES = ['vllm', 'sglang', 'tei', 'llamacpp', 'openai', 'openrlhf', 'http'] as const
export const EngineChoice = z.enum([...ENGINES, 'auto'])

/** Kept as Postgres text: what that cannot hold is refused. */
const text = (max: number) =>
  z
    .string()
    .max(max)
    .refine(
      (s) => s.isWellFormed() && !s.includes('\u0000'),
      'must not hold NUL or lone surrogates',
    )

/** Goes out in a header, which holds neither spaces nor line ends. */
const apiKey = z
  .string()
  .max(4096)
  .regex(/^[\x21-\x7e]*$/, 'must be visible ASCII characters without spaces')

const name = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\w.:-]+$/, 'use letters, digits, ".", "_", ":" and "-"')

/** Longest chat template, in characters: a whole tokenizer_config.json with its 256 added tokens has some 60,000. */
export const MAX_CHAT_TEMPLATE_CHARS = 512 * 1024

/** Jinja, or the tokenizer_config.json that has it. */
const chatTemplate = z
  .union(
    [z.string(), z.record(z.string(), z.json())],
    'must be a template, or a tokenizer_config.json',
  )
  .transform((given) => (typeof given === 'string' ? given : JSON.stringify(given)))
  .pipe(text(MAX_CHAT_TEMPLATE_CHARS).min(1))

/** How a server is asked for scores: a whole text, a whole text with a score for each token or step, or a pair of texts. */
const route = z.enum(['classify', 'token', 'pair'])
/** A label of the model by its index from 0 or by its name; kept as text. */
const label = z
  .union([z.int().min(0).max(999), text(128).min(1)], 'must be an index from 0, or a name')
  .transform(String)

/** `servers.register`. The same name again updates it. */
export const RegisterServerInput = z.strictObject({
  name,
  url: z.string().min(1).max(2048),
  engine: EngineChoice.default('auto'),
  kind: z.enum(['discriminative', 'generative']).default('discriminative'),
  model: text(256).min(1).nullish(),
  weight: z.number().positive().max(1000).default(1),
  maxInFlight: z.int().min(1).max(100_000).nullish(),
  rpm: z.number().positive().nullish(),
  tpm: z.number().positive().nullish(),
  apiKey: apiKey.nullish(),
  tags: z.array(text(64)).max(32).default([]),
  /** Writes prompt and response as text for the model; left out: messages, where the engine accepts them. */
  chatTemplate: chatTemplate.nullish(),
  /** How the server scores; left out: auto-detect. */
  route: route.nullish(),
  /** The label that is the score, by index or name; left out: the last. */
  label: label.nullish(),
  /** Use the server although its self-test failed. */
  selfTestOverride: z.boolean().default(false),
  ifUnreachable: z.enum(['refuse', 'keep']).default('refuse'),
})
export type RegisterServerInput = z.infer<typeof RegisterServerInput>

const ref = {
  id: z
    .string()
    .regex(/^s\d+$/)
    .optional(),
  name: z.string().optional(),
}
const givesOne = (r: { id?: string | undefined; name?: string | undefined }) =>
  (r.id === undefined) !== (r.name === undefined)
const GIVE_ONE = 'give either id or name'

/** A server by id (`s3`) or by name. */
export const ServerRef = z.strictObject(ref).refine(givesOne, GIVE_ONE)
export type ServerRef = z.infer<typeof ServerRef>

/** Changed fields of `servers.update`. */
export const UpdateServerInput = z.strictObject({
  ...ref,
  url: z.string().min(1).max(2048).optional(),
  weight: z.number().positive().max(1000).optional(),
  maxInFlight: z.int().min(1).max(100_000).nullish(),
  rpm: z.number().positive().nullish(),
  tpm: z.number().positive().nullish(),
  apiKey: apiKey.nullish(),
  tags: z.array(text(64)).max(32).optional(),
  chatTemplate: chatTemplate.nullish(),
  route: route.nullish(),
  label: label.nullish(),
  selfTestOverride: z.boolean().optional(),
})
export type UpdateServerInput = z.infer<typeof UpdateServerInput>

/** `servers.sleep`: a server, and how far down: 1 keeps the weights in memory, 2 drops them. */
export const SleepServerInput = z
  .strictObject({ ...ref, level: z.union([z.literal(1), z.literal(2)]).default(1) })
  .refine(givesOne, GIVE_ONE)

/** `servers.wake`: a server, and for how long it is to stay awake at least; batches that need it prolong that. */
export const WakeServerInput = z
  .strictObject({ ...ref, awakeForMs: z.int().min(1_000).max(86_400_000).default(300_000) })
  .refine(givesOne, GIVE_ONE)

/** `servers.log`: the last lines of a launched server's output. */
export const ServerLogInput = z
  .strictObject({ ...ref, lines: z.int().min(1).max(5_000).default(200) })
  .refine(givesOne, GIVE_ONE)

/** One word of a command line or a value of its environment: what a process cannot be given is refused. */
const word = z
  .string()
  .max(32_768)
  .refine((s) => !s.includes('\u0000'), 'must not hold NUL')

/** `servers.launch`, and an entry of the file that REWARDOPS_SERVERS_FILE names: a server we start and keep running. */
export const LaunchServerInput = z
  .strictObject({
    name,
    engine: z.enum(ENGINES),
    kind: z.enum(['discriminative', 'generative']).default('discriminative'),
    /** Taken from the server when left out. */
    model: text(256).min(1).nullish(),
    /** Where it will answer; without it `http://127.0.0.1:<port>`. */
    url: z.string().min(1).max(2048).optional(),
    port: z.int().min(1).max(65_535).optional(),
    /** The program and its arguments; no shell reads it. */
    command: z.array(word).min(1).max(256),
    cwd: word.min(1).optional(),
    /** Beside the service's own environment, from which its keys and its database are taken out. Values are never shown. */
    env: z.record(z.string().regex(/^[A-Za-z_]\w*$/, 'is no name of a variable'), word).default({}),
    weight: z.number().positive().max(1000).default(1),
    maxInFlight: z.int().min(1).max(100_000).nullish(),
    rpm: z.number().positive().nullish(),
    tpm: z.number().positive().nullish(),
    apiKey: apiKey.nullish(),
    tags: z.array(text(64)).max(32).default([]),
    chatTemplate: chatTemplate.nullish(),
    route: route.nullish(),
    label: label.nullish(),
    selfTestOverride: z.boolean().default(false),
  })
  .refine((s) => s.url !== undefined || s.port !== undefined, 'give url or port')
  .refine(
    (s) => s.url === undefined || s.port === undefined || portOf(s.url) === s.port,
    'url and port name different ports',
  )
export type LaunchServerInput = z.infer<typeof LaunchServerInput>

/** The TCP port of an address; null where it is none. */
function portOf(url: string): number | null {
  if (!URL.canParse(url)) return null
  const { port, protocol } = new URL(url)
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
}

/**
 * What the registry says of a server:
 *
 *     registering ─answers─▶ probing ─self-test─▶ ready | quarantined
 *     ready, quarantined ──2 failed probes──▶ unreachable ──10 min──▶ dead ; either ──answers──▶ probing
 *     ready ──its scores changed──▶ quarantined ──a later test is good──▶ ready
 *     ready ──drain──▶ draining ──resume──▶ probing
 *     ready ──sleep──▶ draining ──nothing in flight──▶ sleeping ──wake──▶ waking ──answers──▶ probing
 *
 * `registering`: launched by us, its process is not up yet · `probing`: answers, its scores are being looked at · `ready`:
 * takes work · `unreachable`: does not answer (probed on) · `quarantined`: answers, but its scores are not what they should
 * be (self-test), kept out unless overridden · `draining`: finishes what it has, takes nothing new · `sleeping`, `waking` ·
 * `dead`: unreachable for ten minutes, probed once a minute.
 */
export const SERVER_STATES = [
  'registering',
  'probing',
  'ready',
  'unreachable',
  'quarantined',
  'draining',
  'sleeping',
  'waking',
  'dead',
] as const
export type ServerState = (typeof SERVER_STATES)[number]

/** What a server gave for the fixed calibration texts, and what that says. */
export interface SelfTestDto {
  verdict: SelfTestVerdict
  raw: number | null
  activated: number | null
  /** Score of the first calibration text. */
  calibration: number | null
  /** Of each calibration text, compared across the servers of a pool; absent in tests of older versions. */
  calibrations?: { score: number; promptTokens: number | null }[]
  detail: string
  at: string
  overridden: boolean
}

/** A registered reward-model server as `servers.*` gives it back. Keys are never given back. */
export interface ServerDto {
  id: string
  name: string
  url: string
  engine: (typeof ENGINES)[number]
  kind: 'discriminative' | 'generative'
  model: string
  state: ServerState
  /** The cause of the state, in words. */
  stateCause: string | null
  stateSince: string
  version: string | null
  /** How the server scores; null: the engine has one way, or it is not known yet. */
  route: 'classify' | 'token' | 'pair' | null
  /** The label that is the score; null: the last. */
  label: string | null
  maxModelLen: number | null
  weight: number
  tags: string[]
  /** Calls in flight over all workers. */
  inFlight: number
  /** Most calls in flight at once, over all workers. */
  limit: number
  /** Since registration. */
  requests: number
  errors: number
  retries: number
  /** Over the last 10 minutes; null without a request. */
  p50Ms: number | null
  p99Ms: number | null
  /** Requests per second over the last 10 s. */
  requestsPerSecond: number
  /** Share of its pool's requests over the last 10 minutes, 0–1; null without one. */
  share: number | null
  lastProbeAt: string | null
  /** Null before the first. */
  selfTest: SelfTestDto | null
  rpm: number | null
  tpm: number | null
  /** Warnings of the last probe. */
  warnings: string[]
  canSleep: boolean
  /** The server stays awake until this time. */
  awakeUntil: string | null
  /** The service started it. */
  launched: boolean
  /** Processes by the health that they see; a process without requests to the server counts as `ok`. */
  health: { ok: number; suspect: number; ejected: number; halfOpen: number; slowStart: number }
  /** True: `limit` was set; false: adaptive, between 8 and 96. */
  hasFixedLimit: boolean
}
