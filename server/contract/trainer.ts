import { z } from 'zod'
import { Int4, name, RunName, Step, storableText } from './fields.ts'
import type { GroupSignal, GroupSignalCounts } from './group-signal.ts'
import { partRewardsProblem } from './part-rewards.ts'
import { PROMPT_SHAPE, RESPONSE_SHAPE, type ResultFields } from './sample-fields.ts'
import { SAMPLE_FAILURE_REASONS } from './sample-reason.ts'

/** Text that is stored unchanged, including NUL and lone surrogates. */
const text = z.string()

/** A part of a message's content, in OpenAI's format: `{"type": "text", "text": …}`, `{"type": "image_url", …}`. */
const MessagePart = z.looseObject({ type: z.string().min(1).max(64) })
/** A chat message. Its content is a text, or parts. Further fields, such as `tool_calls`, are kept. */
export const ChatMessage = z.looseObject({
  role: z.string(),
  content: z.union([text, z.array(MessagePart)]).nullish(),
})
/** A prompt: plain text, or chat messages. */
export const Prompt = z.union([text, z.array(ChatMessage)])
/** A response: plain text, or the messages of a trajectory (the policy's turns and the results of its tools). */
export const RolloutResponse = z.union([text, z.array(ChatMessage).min(1).max(10_000)])

const finite = z.number()

/**
 * Maximum length of a verdict or extracted answer, in characters. Longer texts of scorers are cut, and longer texts in
 * a request are refused.
 */
export const MAX_VERDICT_CHARS = 200
const shortText = storableText(MAX_VERDICT_CHARS)

const messageIndex = z.int().min(0).max(9_999)
/** Maximum number of token scores of a sample. 4,096 token scores take about 120 kB of JSON. */
export const MAX_TOKEN_SCORES = 4_096
const tokenOffsets = z.array(z.int().min(0)).max(MAX_TOKEN_SCORES).nullable()
/**
 * The token scores of one message, as columns in the order of the text. The reward model's tokenizer determines the
 * tokens. If a token holds only some of the bytes of a character, its end equals its start.
 */
export const TokenScores = z.strictObject({
  /** The component of a composite reward whose model gave the scores; null if the reward is not composite. */
  component: name(64).nullable().default(null),
  /** Index of the message in `response`, from 0; 0 if the response is plain text. */
  message: messageIndex,
  /**
   * Offset of the start of each token's text in the message, in Unicode code points; null if unknown, see `problem`.
   */
  starts: tokenOffsets,
  /** Offset of the end of each token's text, exclusive. */
  ends: tokenOffsets,
  /** The score of each token. */
  scores: z.array(finite).max(MAX_TOKEN_SCORES),
  /** Number of earlier tokens of the message whose scores are left out. */
  omitted: Int4.default(0),
  /** The reason why offsets or scores are unknown; null if they are known. */
  problem: storableText(300).nullable().default(null),
})
export type TokenScores = z.infer<typeof TokenScores>
/** Turn, span and token rewards of a response, in addition to its score. */
export const PartRewards = z.strictObject({
  /** Turn rewards: each scores a whole message. */
  turns: z
    .array(
      z.strictObject({
        /** Index of the message in `response`, from 0; 0 if the response is plain text. */
        message: messageIndex,
        score: finite,
      }),
    )
    .max(10_000)
    .default([]),
  /** Span rewards: each scores a message's text from `start` to `end` (exclusive), in Unicode code points. */
  spans: z
    .array(
      z
        .strictObject({
          /** Index of the message, as in `turns`. */
          message: messageIndex,
          start: Int4,
          end: Int4,
          score: finite,
        })
        .refine(({ start, end }) => start <= end, { message: 'must not end before it starts' }),
    )
    .max(100_000)
    .default([]),
  /** Token scores of reward models; absent unless the reward sets `tokenScores`. */
  tokens: z.array(TokenScores).max(10_000).optional(),
})
export type PartRewards = z.infer<typeof PartRewards>

/** A rollout to score, or a rollout with its score. */
export const SampleInput = z
  .strictObject({
    /** The id of the group, usually one per prompt. */
    uid: name(512),
    /** Selects the rule when the reward names no model or function. */
    dataSource: name(256),
    ...PROMPT_SHAPE,
    prompt: Prompt,
    response: RolloutResponse,
    /** The reference answer, any JSON. */
    groundTruth: z.unknown().optional(),
    /** Further inputs of the reward. */
    extraInfo: z.record(z.string(), z.unknown()).nullish(),
    ...RESPONSE_SHAPE,
    /** A score computed elsewhere. The sample is stored with this score and not scored. */
    score: finite.nullish(),
    /** The extra info that belongs to `score`. */
    rewardExtraInfo: z.record(z.string(), z.unknown()).nullish(),
    /** How the scorer judged the answer: `equal`, `different`, `no answer`, … */
    verdict: shortText.nullish(),
    /** The answer found in the response, which led to `score`. */
    extracted: shortText.nullish(),
    /** Turn and span rewards of the response, in addition to `score`. */
    rewards: PartRewards.nullish(),
    /** If given, it must equal the sample's position in the batch, from 0. */
    index: Int4.nullish(),
  })
  // A single check instead of four reduces the time per sample from 2.8 µs to 1.4 µs.
  .check(({ value: sample, issues }) => {
    const { score, rewardExtraInfo, verdict, extracted, rewards, response } = sample
    const refuse = (field: keyof typeof sample, message: string) =>
      issues.push({ code: 'custom', path: [field], message, input: sample })
    if (score == null) {
      if (rewardExtraInfo != null) {
        refuse(
          'rewardExtraInfo',
          'belongs to a score, and the sample has none; use extraInfo for inputs of the reward',
        )
      }
      if ((verdict ?? extracted) != null) {
        refuse('verdict', 'and extracted belong to a score, and the sample has none')
      }
      if (rewards != null) refuse('rewards', 'belong to a score, and the sample has none')
    }
    const problem = rewards == null ? null : partRewardsProblem(rewards, response)
    if (problem !== null) refuse('rewards', problem)
  })
export type SampleInput = z.infer<typeof SampleInput>

/** The failure policy: the score of a failed sample. */
export const OnFailure = z.discriminatedUnion('policy', [
  z.strictObject({ policy: z.literal('null') }),
  z.strictObject({ policy: z.literal('constant'), value: finite }),
  z.strictObject({ policy: z.literal('group_mean') }),
  z.strictObject({ policy: z.literal('drop_group') }),
  z.strictObject({ policy: z.literal('fail_batch') }),
])

const RewardFunction = z.strictObject({
  path: z.string().optional(),
  name: z.string().optional(),
  kwargs: z.record(z.string(), z.json()).optional(),
})
/** The name of a judge template, or a template (docs/judges.md). */
const Judge = z.union([name(128), z.record(z.string(), z.json())])
const timeoutMs = z.int().min(1).max(86_400_000)
const maxAttempts = z.int().min(1).max(100)
const tokenScores = z.boolean().optional()

/** The scorer of one component of a composite reward, with its options and limits. */
export const RewardComponent = z.strictObject({
  function: RewardFunction.nullable().default(null),
  model: name(256).nullable().default(null),
  judge: Judge.nullable().default(null),
  tokenScores,
  kwargs: z.record(z.string(), z.json()).default({}),
  /** If left out, the time limit of the reward applies. */
  timeoutMs: timeoutMs.optional(),
  maxAttempts: maxAttempts.optional(),
})
export type RewardComponent = z.infer<typeof RewardComponent>

/** A component of a composite reward. Its score is stored in the extra info under its name. */
export const CompositeComponent = z.strictObject({
  name: name(64)
    .refine((s) => !s.includes('/'), 'must not contain "/"')
    .refine((s) => s !== '__proto__', 'is reserved'),
  weight: finite.default(1),
  /** The fields mean the same as in RewardSpec. */
  reward: RewardComponent.prefault({}),
})
export type CompositeComponent = z.infer<typeof CompositeComponent>

const RewardManagerModule = z.strictObject({
  path: z.string(),
  name: z.string().optional(),
  kwargs: z.record(z.string(), z.json()).optional(),
})

/** The reward of a batch: its scorer or components, their options and limits, and the failure policy. */
export const RewardSpec = z.strictObject({
  /** The name of a reward manager, or a class in a file of the functions folder. */
  manager: z.union([z.string(), RewardManagerModule]).default('naive'),
  /** A custom reward function by `path` under the functions folder, or a rule by `name`. */
  function: RewardFunction.nullable().default(null),
  /** The name of a reward model; if null, the rule that `dataSource` selects is used. */
  model: name(256).nullable().default(null),
  /** For a generative model: the name of a judge template, or a template. */
  judge: Judge.nullable().default(null),
  /**
   * Store the token scores of a process reward model, with their offsets in the response. This takes a second request
   * per sample. Only vLLM servers return token scores.
   */
  tokenScores,
  /** The components of a composite reward, instead of one scorer. */
  combine: z.array(CompositeComponent).min(1).max(32).nullable().default(null),
  /** Options of the rule or manager. */
  kwargs: z.record(z.string(), z.json()).default({}),
  /** Maximum number of samples of the batch in flight; null means no limit. */
  maxConcurrency: z.int().min(1).max(1_000_000).nullable().default(null),
  /** The failure policy: `null`, `constant`, `group_mean`, `drop_group` or `fail_batch`. */
  onFailure: OnFailure.default({ policy: 'null' }),
  /** The time limit of a sample from its first dispatch, retries included. */
  timeoutMs: timeoutMs.default(300_000),
  maxAttempts: maxAttempts.default(4),
  /** Wake the servers of the model before the batch, and put them to sleep when no batch needs them. */
  sleepAfter: z.boolean().default(false),
  /** `normByStd`: whether to divide advantages by the standard deviation of the group. Default: true. */
  advantages: z.strictObject({ normByStd: z.boolean() }).optional(),
})
export type RewardSpec = z.infer<typeof RewardSpec>

/** A batch without its samples. It is checked before the samples are read. */
export const SubmitEnvelope = z.strictObject({
  run: name(256),
  step: Step,
  split: z.enum(['train', 'val']).default('train'),
  /**
   * Samples per group. A group with this number of samples is complete. If null, groups are complete once the batch is
   * closed.
   */
  groupSize: z.int().min(1).max(100_000).nullable().default(null),
  reward: RewardSpec.prefault({}),
  /** Accept more samples with batches.append until batches.close. */
  open: z.boolean().default(false),
  /** Higher priorities are scored first. */
  priority: z.int().min(-1000).max(1000).default(0),
  /** Samples not scored within this time fail as `deadline`. */
  deadlineMs: z.int().min(1).max(604_800_000).nullable().default(null),
  /** A repeated call with the same key and content returns the first result. */
  idempotencyKey: name(256).nullish(),
})
export type SubmitEnvelope = z.infer<typeof SubmitEnvelope>

/** The input of `batches.submit`. */
export const SubmitInput = SubmitEnvelope.extend({
  /** May be empty if `open`. */
  samples: z.array(SampleInput),
})
export type SubmitInput = z.infer<typeof SubmitInput>

/** The output of `batches.submit`: the stored batch. */
export interface SubmitResult {
  batchId: string
  /** Samples accepted. */
  accepted: number
  groups: number
  /** True if an earlier call with the same idempotency key stored the batch. */
  duplicate: boolean
}

/** The id of a batch, such as `b12`. */
export const BatchId = z.string().regex(/^b\d{1,18}$/, 'must be a batch id such as "b12"')
/** The id of a sample: batch id and index, such as `b12-3`. */
export const SampleId = z
  .string()
  .regex(/^b\d{1,18}-\d{1,9}$/, 'must be a sample id such as "b12-3"')

/** The input of `batches.rescore`, which scores the rollouts of a batch with another reward, as a new batch. */
export const RescoreInput = z.strictObject({
  batchId: BatchId,
  reward: RewardSpec,
  /** A repeated call with the same key and content returns the first result. */
  idempotencyKey: name(256).nullish(),
})
export type RescoreInput = z.infer<typeof RescoreInput>

/** The input of `batches.append` without its samples. */
export const AppendEnvelope = z.strictObject({
  batchId: BatchId,
  /** The index of the first appended sample: the number of samples already in the batch. */
  startIndex: z.int().min(0),
})
/** The input of `batches.append`. */
export const AppendInput = AppendEnvelope.extend({ samples: z.array(SampleInput) })
export type AppendInput = z.infer<typeof AppendInput>
/** The output of `batches.append`. */
export interface AppendResult {
  batchId: string
  /** Samples stored by this call; 0 if it repeats an append. */
  accepted: number
  /** Samples in the batch. */
  samples: number
}

/** The status of a batch. The last three are final. */
export const BatchStatus = z.enum(['open', 'running', 'completed', 'cancelled', 'failed'])
export type BatchStatus = z.infer<typeof BatchStatus>

/** A batch in figures. Statistics leave out failed and substituted samples; `std` divides by n − 1. */
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
  /** The reward model, or the rules that the data sources selected. */
  rewardName: string
  /**
   * Version of the custom function: the first twelve hexadecimal digits of the hash of its source, and its path. Null
   * for other rewards.
   */
  rewardVersion: string | null
  /** Groups by signal; null until the batch has ended. */
  groupSignals: GroupSignalCounts | null
  /** The batch whose rollouts were rescored; otherwise null. */
  rescoredFrom: string | null
}

/** The status of a sample. The last two are final. */
export const SampleStatus = z.enum(['queued', 'running', 'scored', 'failed'])
export type SampleStatus = z.infer<typeof SampleStatus>
/** The reason why a sample failed; docs/api.md lists the meanings. */
export const FailureReason = z.enum(SAMPLE_FAILURE_REASONS)

/** The reward of a sample, with its status, times and attempts. */
export interface Result extends ResultFields {
  index: number
  uid: string
  status: SampleStatus
  reason: (typeof SAMPLE_FAILURE_REASONS)[number] | null
  score: number | null
  /** The score as the scorer returned it. */
  rawScore: number | null
  /** True if a failure policy set or removed the score. */
  substituted: boolean
  /** Values that the scorer returned in addition to the score. */
  rewardExtraInfo: Record<string, unknown>
  /** How the scorer judged the answer: `equal`, `different`, `no answer`, …; null if the scorer gives no verdict. */
  verdict: string | null
  /** The answer found in the response, cut to 200 characters; null if there is none. */
  extracted: string | null
  /** Rewards of the response's messages, spans and tokens; null if the scorer gives none. */
  rewards: PartRewards | null
  /** The token index of the reward: responseLength − 1; null for an empty response or an unknown length. */
  position: number | null
  /** Time from acceptance to the first dispatch. */
  queueMs: number | null
  /** Time from the first dispatch to the end, retries included. */
  scoreMs: number | null
  /** 1, plus the retries of the sample's calls to reward models; 0 before the sample is scored. */
  attempts: number
  serverName: string | null
  workerId: string | null
}

/** The output of `samples.score`: the reward and the stored sample. */
export interface ScoreResult extends Result {
  /** The id of the sample, such as `b12-3`. */
  id: string
  /** The batch of the sample. An implicit batch closes after 60 s without a new sample, or on `batches.close`. */
  batchId: string
  /** The failure, in words. */
  detail: string | null
  /** The version of the custom function; null without one. */
  rewardVersion: string | null
}

/** The reward of a sample in its group. */
export interface MemberResult extends Result {
  /** GRPO's advantage over the scored samples of the group; null for failed and substituted samples. */
  advantage: number | null
}

/** A completed group. Its statistics leave out failed and substituted samples. */
export interface GroupResult {
  uid: string
  /** The completion number within the batch: 1, 2, 3 … without gaps. */
  seq: number
  completedAt: string
  mean: number | null
  std: number | null
  signal: GroupSignal
  samples: MemberResult[]
}

/** Maximum wait of a long poll, in ms. Longer waits are shortened to this. */
export const MAX_WAIT_MS = 60_000
const waitMs = z
  .number()
  .min(0)
  .default(0)
  .transform((ms) => Math.min(ms, MAX_WAIT_MS))

/** The input of `batches.next`. */
export const NextInput = z.strictObject({
  batchId: BatchId,
  /** The `cursor` of the previous answer; null starts from the beginning. */
  after: z.string().max(64).nullable().default(null),
  /** Return whole groups until they have at least this many samples together. */
  samples: z.int().min(1).max(1_000_000).default(1),
  waitMs,
})
/** Groups after a cursor, in completion order. */
export interface NextResult {
  groups: GroupResult[]
  /** The `after` of the next call. */
  cursor: string
  /** Samples in this answer. */
  delivered: number
  /** Samples of the batch after this cursor. */
  remaining: number
  /** True if the batch has ended and all its groups are delivered. */
  done: boolean
  /** True if the long poll ended without a group. */
  timedOut: boolean
}

/** The input of `batches.wait`. */
export const WaitInput = z.strictObject({ batchId: BatchId, waitMs })

/** Maximum number of results per page if token scores are included. */
export const MAX_RESULTS_WITH_TOKENS = 500
/** The input of `batches.results`. */
export const ResultsInput = z
  .strictObject({
    batchId: BatchId,
    /** The index of the first sample. */
    offset: z.int().min(0).default(0),
    limit: z.int().min(1).max(50_000).default(10_000),
    /** Include token scores. `limit` is then at most 500. */
    tokenScores: z.boolean().default(false),
  })
  .refine(({ limit, tokenScores }) => !tokenScores || limit <= MAX_RESULTS_WITH_TOKENS, {
    path: ['limit'],
    message: `must be at most ${MAX_RESULTS_WITH_TOKENS} with tokenScores`,
  })
export type ResultsInput = z.infer<typeof ResultsInput>
/** The fields of results, as columns. */
export type FieldColumns = { [Name in keyof ResultFields]: ResultFields[Name][] }
/**
 * Results as columns in input order. `rewardExtraKeys` lists the keys of all samples; a sample without a key has null.
 */
export interface ResultsColumns extends FieldColumns {
  index: number[]
  uid: string[]
  status: SampleStatus[]
  reason: (string | null)[]
  score: (number | null)[]
  rawScore: (number | null)[]
  substituted: boolean[]
  rewardExtraKeys: string[]
  rewardExtraInfo: Record<string, unknown[]>
  verdict: (string | null)[]
  extracted: (string | null)[]
  /** Turn and span rewards, and token scores if they are requested. */
  rewards: (PartRewards | null)[]
  position: (number | null)[]
  /** GRPO's advantage; null until the group is complete, and for failed and substituted samples. */
  advantage: (number | null)[]
}

/** The input of `samples.score`. */
export const ScoreInput = z.strictObject({
  run: name(256),
  step: Step,
  split: z.enum(['train', 'val']).default('train'),
  reward: RewardSpec.prefault({}),
  sample: SampleInput,
  /** An open batch. If left out, the implicit batch of the run, step, split and reward is used. */
  batchId: BatchId.nullish(),
  /** A repeated call with the same key and content returns the first result. */
  idempotencyKey: name(256).nullish(),
})
export type ScoreInput = z.infer<typeof ScoreInput>

/** The input of `batches.list`. */
export const BatchListInput = z.strictObject({
  run: RunName.optional(),
  status: BatchStatus.optional(),
  split: z.enum(['train', 'val']).optional(),
  /** True selects only batches that have ended; false selects only active batches. */
  ended: z.boolean().optional(),
  /** True selects only rescored batches; false selects only other batches. */
  rescored: z.boolean().optional(),
  cursor: z.string().nullish(),
  limit: z.int().min(1).max(200).default(50),
})
/** A page of a list. `nextCursor` is null on the last page. */
export interface Page<T> {
  items: T[]
  nextCursor: string | null
}
