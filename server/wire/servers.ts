import { z } from 'zod'

/** Calls in flight of a server that was registered without `maxInFlight`, over all workers. */
export const DEFAULT_MAX_IN_FLIGHT = 64

/** Engines whose protocol is spoken; `auto` probes and finds out. */
export const ENGINES = ['vllm', 'sglang', 'openrlhf'] as const
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

/** `servers.register`. The same name again updates it. */
export const RegisterServerInput = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(128)
    .regex(/^[\w.:-]+$/, 'use letters, digits, ".", "_", ":" and "-"'),
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
  chatTemplate: z.string().nullish(),
  ifUnreachable: z.enum(['refuse', 'keep']).default('refuse'),
})
export type RegisterServerInput = z.infer<typeof RegisterServerInput>

/** A server by id (`s3`) or by name. */
export const ServerRef = z
  .strictObject({
    id: z
      .string()
      .regex(/^s\d+$/)
      .optional(),
    name: z.string().optional(),
  })
  .refine((r) => (r.id === undefined) !== (r.name === undefined), 'give either id or name')

/** Changed fields of `servers.update`. */
export const UpdateServerInput = z.strictObject({
  id: z
    .string()
    .regex(/^s\d+$/)
    .optional(),
  name: z.string().optional(),
  url: z.string().min(1).max(2048).optional(),
  weight: z.number().positive().max(1000).optional(),
  maxInFlight: z.int().min(1).max(100_000).nullish(),
  apiKey: apiKey.nullish(),
  tags: z.array(text(64)).max(32).optional(),
})

/**
 * `ready` takes work · `unreachable` does not answer (probed on) · `draining` finishes what it has, takes nothing new.
 * Sleeping and waking arrive with the RewardModelManager.
 */
export type ServerState = 'ready' | 'unreachable' | 'draining'

/** A registered reward-model server as `servers.*` gives it back. Keys are never given back. */
export interface ServerDto {
  id: string
  name: string
  url: string
  engine: (typeof ENGINES)[number]
  kind: 'discriminative' | 'generative'
  model: string
  state: ServerState
  /** Why it is in that state, in words. */
  stateCause: string | null
  stateSince: string
  version: string | null
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
  /** Raw-score self-test; arrives with the full router, null until then. */
  selfTest: null
}
