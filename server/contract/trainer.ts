import { z } from 'zod'
import type { GroupSignal, GroupSignalCounts } from './group-signal.ts'
import { SAMPLE_FAILURE_REASONS } from './sample-reason.ts'

/**
 * The trainers' contract: what `batches.*`, `samples.*` and `servers.*` take and give back.
 * Plain JSON, no transformer; durations in milliseconds with the unit in the name, times ISO 8601 UTC.
 */

/** Text kept byte for byte: NUL and lone surrogates included. */
const text = z.string()

/** A name: kept as Postgres text and used in filters and links, so NUL and lone surrogates are refused. */
const name = (max: number) =>
  z
    .string()
    .min(1, 'must not be empty')
    .max(max, `must be at most ${max} characters`)
    .refine(
      (s) => s.isWellFormed() && !s.includes('\u0000'),
      'must not hold NUL or lone surrogates',
    )

/** A chat message as trainers send it. */
export const ChatMessage = z.looseObject({ role: z.string(), content: text.nullish() })
/** A prompt: plain text, or chat messages. */
export const Prompt = z.union([text, z.array(ChatMessage)])

const finite = z.number()

/** One rollout as a trainer hands it over. */
export const SampleInput = z
  .strictObject({
    uid: name(512),
    dataSource: name(256),
    prompt: Prompt,
    response: text,
    /** Any JSON. */
    groundTruth: z.unknown().optional(),
    extraInfo: z.record(z.string(), z.unknown()).nullish(),
    responseLength: z.int().min(0).max(2_147_483_647).nullish(),
    /** A score from elsewhere: it is stored, and the sample is not scored. */
    score: finite.nullish(),
    /** What the scorer returned beside `score`. */
    rewardExtraInfo: z.record(z.string(), z.unknown()).nullish(),
    /** Checked if given: samples are numbered in the order given, from 0, or from `startIndex`. */
    index: z.int().min(0).nullish(),
  })
  .refine((sample) => sample.rewardExtraInfo == null || sample.score != null, {
    path: ['rewardExtraInfo'],
    message:
      'belongs to a score, and the sample has none; use extraInfo for what the reward is to read',
  })
export type SampleInput = z.infer<typeof SampleInput>

/** What happens to a sample that could not be scored; a failure is never a silent 0. */
export const OnFailure = z.discriminatedUnion('policy', [
  z.strictObject({ policy: z.literal('null') }),
  z.strictObject({ policy: z.literal('constant'), value: finite }),
  z.strictObject({ policy: z.literal('group_mean') }),
  z.strictObject({ policy: z.literal('drop_group') }),
  z.strictObject({ policy: z.literal('fail_batch') }),
])

/** Code that scores: of the user's own by its path, or a rule by its name. */
const RewardFunction = z.strictObject({
  path: z.string().optional(),
  name: z.string().optional(),
  kwargs: z.record(z.string(), z.json()).optional(),
})
/** For a generative model: how it judges. A template's name, or a template (docs/judges.md). */
const Judge = z.union([name(128), z.record(z.string(), z.json())])
const timeoutMs = z.int().min(1).max(86_400_000)
const maxAttempts = z.int().min(1).max(100)

/** The reward of one part of a composite reward. */
export const RewardComponent = z.strictObject({
  function: RewardFunction.nullable().default(null),
  model: name(256).nullable().default(null),
  judge: Judge.nullable().default(null),
  kwargs: z.record(z.string(), z.json()).default({}),
  /** Left out: the time limit of the reward. */
  timeoutMs: timeoutMs.optional(),
  maxAttempts: maxAttempts.optional(),
})
export type RewardComponent = z.infer<typeof RewardComponent>

/** One part of `reward.combine`; its score is stored in the extra info under its name. */
export const CompositeComponent = z.strictObject({
  name: name(64)
    .refine((s) => !s.includes('/'), 'must not hold "/"')
    .refine((s) => s !== '__proto__', 'is not a name that extra info can have'),
  weight: finite.default(1),
  reward: RewardComponent.prefault({}),
})
export type CompositeComponent = z.infer<typeof CompositeComponent>

/** A manager class of the user's own, in a file of the functions folder. */
const RewardManagerModule = z.strictObject({
  path: z.string(),
  name: z.string().optional(),
  kwargs: z.record(z.string(), z.json()).optional(),
})

/** How a batch is scored. Defaults are those of the contract. */
export const RewardSpec = z.strictObject({
  /** The name of a reward manager, or a class in a file of the functions folder. */
  manager: z.union([z.string(), RewardManagerModule]).default('naive'),
  function: RewardFunction.nullable().default(null),
  model: name(256).nullable().default(null),
  judge: Judge.nullable().default(null),
  /** The parts of a composite reward, instead of one scorer. */
  combine: z.array(CompositeComponent).min(1).max(32).nullable().default(null),
  kwargs: z.record(z.string(), z.json()).default({}),
  maxConcurrency: z.int().min(1).max(1_000_000).nullable().default(null),
  onFailure: OnFailure.default({ policy: 'null' }),
  timeoutMs: timeoutMs.default(300_000),
  maxAttempts: maxAttempts.default(4),
  sleepAfter: z.boolean().default(false),
  /** How advantages are normalised; left out: by the standard deviation of the group. */
  advantages: z.strictObject({ normByStd: z.boolean() }).optional(),
})
export type RewardSpec = z.infer<typeof RewardSpec>

/** A batch without its samples: what is checked first, whatever the size of the rest. */
export const SubmitEnvelope = z.strictObject({
  run: name(256),
  step: z.int().min(0).max(2_147_483_647),
  split: z.enum(['train', 'val']).default('train'),
  groupSize: z.int().min(1).max(100_000).nullable().default(null),
  reward: RewardSpec.prefault({}),
  open: z.boolean().default(false),
  priority: z.int().min(-1000).max(1000).default(0),
  deadlineMs: z.int().min(1).max(604_800_000).nullable().default(null),
  idempotencyKey: name(256).nullish(),
})
export type SubmitEnvelope = z.infer<typeof SubmitEnvelope>

/** `batches.submit`. `samples` may be empty only when `open`. */
export const SubmitInput = SubmitEnvelope.extend({ samples: z.array(SampleInput) })
export type SubmitInput = z.infer<typeof SubmitInput>

/** The acknowledgement: the batch is safe on disk. */
export interface SubmitResult {
  batchId: string
  /** Samples accepted. */
  accepted: number
  groups: number
  /** True: an earlier call with the same idempotency key stored the batch. */
  duplicate: boolean
}

/** A batch's public id, `b` and a number. */
export const BatchId = z.string().regex(/^b\d{1,18}$/, 'must be a batch id such as "b12"')
/** A sample's public id, its batch's id and its index: `b12-3`. */
export const SampleId = z
  .string()
  .regex(/^b\d{1,18}-\d{1,9}$/, 'must be a sample id such as "b12-3"')

/** `batches.rescore`: the same rollouts by another reward, as a batch of their own. It answers as `batches.submit`. */
export const RescoreInput = z.strictObject({
  batchId: BatchId,
  reward: RewardSpec,
  idempotencyKey: name(256).nullish(),
})
export type RescoreInput = z.infer<typeof RescoreInput>

/** `batches.append` without its samples. */
export const AppendEnvelope = z.strictObject({ batchId: BatchId, startIndex: z.int().min(0) })
export const AppendInput = AppendEnvelope.extend({ samples: z.array(SampleInput) })
export type AppendInput = z.infer<typeof AppendInput>
/** `accepted`: samples stored by this call (0 when the append was a repetition). `samples`: in the batch now. */
export interface AppendResult {
  batchId: string
  accepted: number
  samples: number
}

/** Where a batch stands; the last three are ends. */
export const BatchStatus = z.enum(['open', 'running', 'completed', 'cancelled', 'failed'])
export type BatchStatus = z.infer<typeof BatchStatus>

/** What `batches.get`, `wait` and `list` say of a batch. Statistics leave out failed and substituted samples; `std` is with n − 1. */
export interface BatchSummary {
  batchId: string
  run: string
  step: number
  split: 'train' | 'val'
  status: BatchStatus
  samples: number
  scored: number
  failed: number
  groups: number
  groupsCompleted: number
  submittedAt: string
  startedAt: string | null
  completedAt: string | null
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  /** Retries after transient failures. */
  retries: number
  /** The reward: a reward model's name, or the rules the data sources selected. */
  rewardName: string
  /** For custom functions: twelve digits of the hash of the source, and its path; otherwise null. */
  rewardVersion: string | null
  /** Groups by signal; null until the batch has ended. */
  groupSignals: GroupSignalCounts | null
  /** The batch whose rollouts were rescored; otherwise null. */
  rescoredFrom: string | null
}

/** Where a sample stands. */
export const SampleStatus = z.enum(['queued', 'running', 'scored', 'failed'])
export type SampleStatus = z.infer<typeof SampleStatus>
export const FailureReason = z.enum(SAMPLE_FAILURE_REASONS)

/** One sample's reward. */
export interface Result {
  index: number
  uid: string
  status: SampleStatus
  reason: (typeof SAMPLE_FAILURE_REASONS)[number] | null
  score: number | null
  /** The score as the scorer returned it. */
  rawScore: number | null
  substituted: boolean
  rewardExtraInfo: Record<string, unknown>
  /** The token index of the reward: responseLength − 1; null for an empty response or an unknown length. */
  position: number | null
  /** From acceptance to the first dispatch. */
  queueMs: number | null
  /** From the first dispatch to the end, retries included. */
  scoreMs: number | null
  attempts: number
  serverName: string | null
  workerId: string | null
}

/** What `samples.score` answers: the reward, and where the sample is kept. */
export interface ScoreResult extends Result {
  /** The id of the sample, such as `b12-3`. */
  id: string
  /** The batch that it joined. The implicit batch closes after 60 s without samples, or by `batches.close`. */
  batchId: string
  /** The failure in words; null for a scored sample. */
  detail: string | null
  /** For custom functions: the version, as in the summary of the batch; otherwise null. */
  rewardVersion: string | null
}

/** A sample's reward as it is delivered with its group. */
export interface MemberResult extends Result {
  /** GRPO's advantage over the scored samples of the group; null for failed and substituted samples. */
  advantage: number | null
}

/** A completed group, delivered whole. Its statistics leave out failed and substituted members. */
export interface GroupResult {
  uid: string
  /** Completion number within the batch: 1, 2, 3 … without gaps. */
  seq: number
  completedAt: string
  mean: number | null
  std: number | null
  /** The group signal. */
  signal: GroupSignal
  samples: MemberResult[]
}

/** Long polls wait at most this long; longer asks are clamped. */
export const MAX_WAIT_MS = 60_000
const waitMs = z
  .number()
  .min(0)
  .default(0)
  .transform((ms) => Math.min(ms, MAX_WAIT_MS))

/** `batches.next`: `after` is the cursor of the last answer, or null for the beginning. */
export const NextInput = z.strictObject({
  batchId: BatchId,
  after: z.string().max(64).nullable().default(null),
  samples: z.int().min(1).max(1_000_000).default(1),
  waitMs,
})
export interface NextResult {
  groups: GroupResult[]
  cursor: string
  /** Samples in this answer. */
  delivered: number
  /** Samples of the batch not yet delivered to this cursor. */
  remaining: number
  /** The batch has ended and this cursor is at its end. */
  done: boolean
  timedOut: boolean
}

export const WaitInput = z.strictObject({ batchId: BatchId, waitMs })

export const ResultsInput = z.strictObject({
  batchId: BatchId,
  offset: z.int().min(0).default(0),
  limit: z.int().min(1).max(50_000).default(10_000),
  tokenScores: z.boolean().default(false),
})
/** Columns in input order; `rewardExtraKeys` is the ordered union over the samples, null where a sample lacks one. */
export interface ResultsColumns {
  index: number[]
  uid: string[]
  status: SampleStatus[]
  reason: (string | null)[]
  score: (number | null)[]
  rawScore: (number | null)[]
  substituted: boolean[]
  rewardExtraKeys: string[]
  rewardExtraInfo: Record<string, unknown[]>
  position: (number | null)[]
  /** GRPO's advantage; null until the group is complete, and for failed and substituted samples. */
  advantage: (number | null)[]
}

/** `samples.score`: one sample in, its reward out. */
export const ScoreInput = z.strictObject({
  run: name(256),
  step: z.int().min(0).max(2_147_483_647),
  split: z.enum(['train', 'val']).default('train'),
  reward: RewardSpec.prefault({}),
  sample: SampleInput,
  batchId: BatchId.nullish(),
  idempotencyKey: name(256).nullish(),
})
export type ScoreInput = z.infer<typeof ScoreInput>

export const BatchListInput = z.strictObject({
  run: z.string().optional(),
  status: BatchStatus.optional(),
  split: z.enum(['train', 'val']).optional(),
  /** Only rescored batches, or only others. */
  rescored: z.boolean().optional(),
  cursor: z.string().nullish(),
  limit: z.int().min(1).max(200).default(50),
})
/** A keyset page: `nextCursor` is null on the last one. */
export interface Page<T> {
  items: T[]
  nextCursor: string | null
}
