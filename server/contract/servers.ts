import { z } from 'zod'
import { ADAPTIVE_MAX_IN_FLIGHT } from './adaptive-limit.ts'
import { ENGINE_NAMES, type EngineName } from './engines.ts'
import { name as nameOf, storableText } from './fields.ts'
import type { SelfTestVerdict } from './self-test-verdict.ts'

/**
 * Returns the maximum requests in flight over all processes: `maxInFlight` if it is set, otherwise the lower of 96 and
 * the concurrency that the server reports.
 */
export function mostInFlight(maxInFlight: number | null, maxConcurrent: number | null): number {
  return maxInFlight ?? Math.min(ADAPTIVE_MAX_IN_FLIGHT, Math.max(1, maxConcurrent ?? Infinity))
}

export const EngineChoice = z.enum([...ENGINE_NAMES, 'auto'])

/** The key is sent as a bearer token, which cannot contain spaces or line ends. */
const apiKey = z
  .string()
  .max(4096)
  .regex(/^[\x21-\x7e]*$/, 'must be visible ASCII characters without spaces')

const name = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\w.:-]+$/, 'use letters, digits, ".", "_", ":" and "-"')

/** Maximum number of characters of a chat template. A tokenizer_config.json with 256 added tokens has about 60,000. */
export const MAX_CHAT_TEMPLATE_CHARS = 512 * 1024

const chatTemplate = z
  .union(
    [z.string(), z.record(z.string(), z.json())],
    'must be a template, or a tokenizer_config.json',
  )
  .transform((given) => (typeof given === 'string' ? given : JSON.stringify(given)))
  .pipe(storableText(MAX_CHAT_TEMPLATE_CHARS).min(1))

/**
 * The kinds of model input and output: `classify` scores a whole text, `token` scores each token or step of a text, and
 * `pair` scores prompt and response as separate texts.
 */
export const SCORE_ROUTES = ['classify', 'token', 'pair'] as const
const route = z.enum(SCORE_ROUTES)
const label = z
  .union([z.int().min(0).max(999), storableText(128).min(1)], 'must be an index from 0, or a name')
  .transform(String)

/** Settings that `servers.update` cannot change. */
const fixed = {
  /** A discriminative model returns scores; a generative model is a judge. */
  kind: z.enum(['discriminative', 'generative']).default('discriminative'),
  /** Default: the model that the server reports. */
  model: storableText(256).min(1).nullish(),
}

/**
 * The settings of a server: fields of `servers.register`, `servers.launch` and `servers.update`, and database columns
 * of the same names. Defaults apply to a registration. Null restores the default.
 */
export const ServerSettings = z.strictObject({
  /** The share of traffic relative to other servers of the model. */
  weight: z.number().positive().max(1000).default(1),
  /** Maximum number of requests in flight over all processes; null means adaptive. */
  maxInFlight: z.int().min(1).max(100_000).nullish(),
  /** Maximum requests per minute; null means no limit. */
  rpm: z.number().positive().nullish(),
  /** Maximum tokens per minute; null means no limit. */
  tpm: z.number().positive().nullish(),
  /** The key that the server requires. */
  apiKey: apiKey.nullish(),
  tags: z.array(storableText(64)).max(32).default([]),
  /**
   * A Jinja template, or a tokenizer_config.json, that writes prompt and response as text for the model. If null, the
   * engine gets chat messages, provided that it accepts them.
   */
  chatTemplate: chatTemplate.nullish(),
  /**
   * `classify`: a whole text; `token`: a score per token or step; `pair`: prompt and response as separate texts. Null
   * means auto-detect.
   */
  route: route.nullish(),
  /** The label whose value is the score, by index or name; null means the last label. */
  label: label.nullish(),
  /** Use the server although its self-test failed. */
  selfTestOverride: z.boolean().default(false),
})
export type ServerSettings = z.infer<typeof ServerSettings>

/** Settings that require a probe when they change. For a launched server, only the launch sets them. */
export const PROBED_SETTINGS = [
  'apiKey',
  'chatTemplate',
  'route',
  'label',
] as const satisfies readonly (keyof ServerSettings)[]

/** The settings with null instead of undefined. */
export type FilledSettings = {
  [field in keyof ServerSettings]-?: Exclude<ServerSettings[field], undefined>
}

/** Settings that server lists show in another form or not at all. */
const UNLISTED = ['apiKey', 'chatTemplate', 'maxInFlight', 'route', 'selfTestOverride'] as const
/** The settings that server lists show. */
export type ListedSettings = Omit<FilledSettings, (typeof UNLISTED)[number]>

/** Picks the settings of a registration or launch. */
export function settingsOf(from: ServerSettings): FilledSettings {
  const fields = Object.keys(ServerSettings.shape) as (keyof ServerSettings)[]
  return Object.fromEntries(fields.map((field) => [field, from[field] ?? null])) as FilledSettings
}

const endOfLabels = (last: string) => `, ${last}); the last one is the score.`

/** The warning of a probe if the model has several labels and the registration names none of them. */
export function lastLabelWarning(labels: readonly string[]): string {
  const before = labels.slice(0, -1).join(', ')
  const end = endOfLabels(labels.at(-1) as string)
  return `The model has ${labels.length} labels (${before}${end} Name another with "label".`
}

/**
 * Returns the label that a server's registration names, or null if it names none. The column `label` may then hold the
 * model's last label, which the probe chose; a warning of the server says so.
 */
export function labelNamedFor({
  label,
  warnings,
}: {
  label: string | null
  warnings: readonly string[]
}): string | null {
  if (label === null) return null
  const end = endOfLabels(label)
  return warnings.some((warning) => warning.includes(end)) ? null : label
}

/** Picks the settings that lists of servers show. */
export function listedSettings(from: FilledSettings): ListedSettings {
  const listed: Partial<FilledSettings> = settingsOf(from)
  for (const field of UNLISTED) delete listed[field]
  return listed as ListedSettings
}

/** The input of `servers.register`. Registering the same name again updates the server. */
export const RegisterServerInput = z.strictObject({
  name,
  url: nameOf(2_048),
  engine: EngineChoice.default('auto'),
  ...fixed,
  ...ServerSettings.shape,
  /** `keep` registers an unreachable server, which is probed until it answers. */
  ifUnreachable: z.enum(['refuse', 'keep']).default('refuse'),
})
export type RegisterServerInput = z.infer<typeof RegisterServerInput>

const ref = {
  id: z
    .string()
    .regex(/^s\d+$/)
    .optional(),
  name: storableText(256).optional(),
}
const givesOne = (r: { id?: string | undefined; name?: string | undefined }) =>
  (r.id === undefined) !== (r.name === undefined)
const GIVE_ONE = 'give either id or name'

/** A server, by id or by name. */
export const ServerRef = z.strictObject(ref).refine(givesOne, GIVE_ONE)
export type ServerRef = z.infer<typeof ServerRef>

/**
 * Makes fields optional and removes their defaults, because every update would otherwise reset the fields that it
 * omits.
 */
function changeable<Shape extends z.ZodRawShape>(shape: Shape) {
  return Object.fromEntries(
    Object.entries(shape).map(([field, type]) => [
      field,
      z.optional(type instanceof z.ZodDefault ? type.unwrap() : type),
    ]),
  ) as {
    [field in keyof Shape]: z.ZodOptional<
      Shape[field] extends z.ZodDefault<infer Type> ? Type : Shape[field]
    >
  }
}

/** The input of `servers.update`. Only the given fields change. Null restores the default. */
export const UpdateServerInput = z.strictObject({
  ...ref,
  url: nameOf(2_048).optional(),
  ...changeable(ServerSettings.shape),
})
export type UpdateServerInput = z.infer<typeof UpdateServerInput>

export const SleepServerInput = z
  .strictObject({
    ...ref,
    /** 1 offloads the weights to CPU memory, 2 discards them. */
    level: z.union([z.literal(1), z.literal(2)]).default(1),
  })
  .refine(givesOne, GIVE_ONE)

/** The input of `servers.wake`. */
export const WakeServerInput = z
  .strictObject({
    ...ref,
    /** The server stays awake at least this long, and longer if batches need it. */
    awakeForMs: z.int().min(1_000).max(86_400_000).default(300_000),
  })
  .refine(givesOne, GIVE_ONE)

/** The input of `servers.log`. */
export const ServerLogInput = z
  .strictObject({
    ...ref,
    /** Number of lines to return from the end of the log. */
    lines: z.int().min(1).max(5_000).default(200),
  })
  .refine(givesOne, GIVE_ONE)

const word = z
  .string()
  .max(32_768)
  .refine((s) => !s.includes('\u0000'), 'must not contain NUL')

/**
 * The input of `servers.launch`, and an entry of the file that REWARDOPS_SERVERS_FILE names: a server that the service
 * starts and keeps running.
 */
export const LaunchServerInput = z
  .strictObject({
    name,
    engine: z.enum(ENGINE_NAMES),
    ...fixed,
    ...ServerSettings.shape,
    /** The URL of the server. Default: `http://127.0.0.1:<port>`. */
    url: nameOf(2_048).optional(),
    port: z.int().min(1).max(65_535).optional(),
    /** The program and its arguments, run without a shell. */
    command: z.array(word).min(1).max(256),
    /** The working directory of the program. */
    cwd: word.min(1).optional(),
    /**
     * Environment variables of the program. It also inherits the service's environment, except for the service's
     * settings. Values are never shown.
     */
    env: z.record(z.string().regex(/^[A-Za-z_]\w*$/, 'is not a variable name'), word).default({}),
  })
  .refine((s) => s.url !== undefined || s.port !== undefined, 'give url or port')
  .refine(
    (s) => s.url === undefined || s.port === undefined || portOf(s.url) === s.port,
    'url and port name different ports',
  )
export type LaunchServerInput = z.infer<typeof LaunchServerInput>

function portOf(url: string): number | null {
  if (!URL.canParse(url)) return null
  const { port, protocol } = new URL(url)
  return port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port)
}

/**
 * States of a server in the registry:
 *
 *     registering ─answers─▶ probing ─self-test─▶ ready | quarantined
 *     ready, quarantined ──2 failed probes──▶ unreachable ──10 min──▶ dead ; either ──answers──▶ probing
 *     ready ──its scores changed──▶ quarantined ──a later test is good──▶ ready
 *     ready ──drain──▶ draining ──resume──▶ probing
 *     ready ──sleep──▶ draining ──nothing in flight──▶ sleeping ──wake──▶ waking ──answers──▶ probing
 *
 * - `registering`: launched, and its process does not answer yet
 * - `probing`: answers, and is being tested
 * - `ready`: gets traffic
 * - `unreachable`: does not answer, and is still probed
 * - `quarantined`: failed the self-test, and gets no traffic unless overridden
 * - `draining`: completes its requests and gets no new ones
 * - `sleeping`: was put to sleep
 * - `waking`: is being woken
 * - `dead`: unreachable for ten minutes, and probed once a minute
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

/** The result of a self-test: scores of fixed calibration texts, and the verdict. */
export interface SelfTestDto {
  verdict: SelfTestVerdict
  /** The raw score of a good answer. */
  raw: number | null
  /** The score of the good answer after the activation; null if it is not available. */
  activated: number | null
  /** The score of the first calibration text. */
  calibration: number | null
  /** The scores of all calibration texts, compared across the servers of a pool. */
  calibrations?: { score: number; promptTokens: number | null }[]
  detail: string
  at: string
  /** True if the server is used despite the verdict. */
  overridden: boolean
}

/** A registered reward-model server, without its key. */
export interface ServerDto extends ListedSettings {
  id: string
  name: string
  url: string
  engine: EngineName
  kind: 'discriminative' | 'generative'
  model: string
  state: ServerState
  /** The cause of the state, in words. */
  stateCause: string | null
  stateSince: string
  version: string | null
  /**
   * `classify`: a whole text; `token`: a score per token or step; `pair`: prompt and response as separate texts. Null
   * if the engine has only one route, or if the route is not known yet.
   */
  route: 'classify' | 'token' | 'pair' | null
  /** The max context, in tokens. */
  maxModelLen: number | null
  /** Requests in flight over all workers. */
  inFlight: number
  /** Maximum number of requests in flight over all workers. */
  limit: number
  /** `requests`, `errors` and `retries` are counted since registration. */
  requests: number
  errors: number
  retries: number
  /** `p50Ms` and `p99Ms` are latencies over the last 10 minutes; null if there were no requests. */
  p50Ms: number | null
  p99Ms: number | null
  /** The share of failed requests over the last 10 minutes, 0–1; null if there were no requests. */
  errorShare: number | null
  /** Requests per second over the last 10 s. */
  requestsPerSecond: number
  /** The server's share of its pool's requests over the last 10 minutes, 0–1; null if there were none. */
  share: number | null
  lastProbeAt: string | null
  /** Null before the first self-test. */
  selfTest: SelfTestDto | null
  /** Warnings of the last probe. */
  warnings: string[]
  canSleep: boolean
  /** The server stays awake until this time. */
  awakeUntil: string | null
  /** True if the service launched the server. */
  launched: boolean
  /**
   * The number of processes that see the server in each state of health. A process without requests to the server
   * counts as `ok`.
   */
  health: { ok: number; suspect: number; ejected: number; halfOpen: number; slowStart: number }
  /** True if `limit` was set; false if it is adaptive, at most 96. */
  hasFixedLimit: boolean
}
