import { z } from 'zod'
import { Int4, stepRange, storableText } from './fields.ts'
import type { SampleFailureReason } from './sample-reason.ts'
import type { LaunchServerInput } from './servers.ts'
import { Prompt, RewardSpec } from './trainer.ts'

const MAX_TRIED_CHARS = 500_000
/** verl's composed configuration has about 40,000 characters. */
const MAX_CONFIG_CHARS = 400_000

/** The input of `rewards.try`: one sample and a reward. The sample is scored as in a batch; nothing is stored. */
export const TryInput = z
  .strictObject({
    /** The fields mean the same as in SampleInput. */
    sample: z.strictObject({
      dataSource: storableText(256).default(''),
      prompt: Prompt,
      response: z.string(),
      groundTruth: z.unknown().optional(),
      extraInfo: z.record(z.string(), z.unknown()).nullish(),
      responseLength: Int4.nullish(),
    }),
    reward: RewardSpec.prefault({}),
    /** Time limit of the call. A sample that exceeds the limit fails as `deadline`. */
    deadlineMs: z.int().min(1).max(120_000).default(60_000),
  })
  .refine(({ sample }) => sizeOf(sample) <= MAX_TRIED_CHARS, {
    path: ['sample'],
    message: `prompt and response have more than ${MAX_TRIED_CHARS} characters together`,
  })
export type TryInput = z.infer<typeof TryInput>

function sizeOf({ prompt, response }: { prompt: z.infer<typeof Prompt>; response: string }) {
  const turns = typeof prompt === 'string' ? [{ content: prompt }] : prompt
  return turns.reduce((sum, { content }) => sum + (content?.length ?? 0), response.length)
}

/** The input of `rewards.importConfig`. */
export const ImportConfigInput = z.strictObject({
  /** A verl configuration in YAML, or the overrides of a command line. */
  text: z.string().max(MAX_CONFIG_CHARS, `is longer than ${MAX_CONFIG_CHARS} characters`),
})
export type ImportConfigInput = z.infer<typeof ImportConfigInput>

/** The input of `rewards.components`. */
export const ComponentsInput = z.strictObject({
  /** Default: the newest run with components. */
  run: storableText(256).optional(),
  ...stepRange,
})
export type ComponentsInput = z.infer<typeof ComponentsInput>

/** The statistics of a component in one batch, over its scored samples. */
export interface ComponentPointDto {
  batchId: string
  step: number
  n: number
  mean: number
  /** The standard deviation (n − 1); null for a single sample. */
  std: number | null
  /** The component's weight at this step, or null if it has no weight. */
  weight: number | null
}

/** A component with its statistics by step, oldest step first. */
export interface ComponentDto {
  /** The name of a component or the key of a `gdpo` dimension. An empty name stands for the reward itself. */
  name: string
  /** The component's weight in the newest batch, or null if it has no weight. */
  weight: number | null
  points: ComponentPointDto[]
}

/** The output of `rewards.components`. */
export interface ComponentsDto {
  /** Runs whose newest batches have components. */
  runs: string[]
  run: string | null
  components: ComponentDto[]
  /** Batches that have not ended, which are left out. */
  running: number
  /** Ended batches that are not included yet. */
  pending: number
  /** True if older batches are left out. */
  hasMore: boolean
}

/** An option of a rule or manager in `reward.kwargs`. */
export interface OptionDto {
  /** Nested options have dotted names. */
  name: string
  /** The type in words, such as `number`, `text` or `true or false`. */
  type: string
  /** The allowed values, if there are few. */
  choices: string[] | null
  /** The default as JSON, or null if there is none. */
  defaultJson: string | null
  description: string
}

/** A built-in rule that `reward.function.name` can name. */
export interface RuleDto {
  name: string
  title: string
  /** Exact names, or prefixes such as `aime*`. Empty if the rule is only selected by name. */
  dataSources: string[]
  /** True if the rule calls a service over HTTP. */
  callsService: boolean
  options: OptionDto[]
}

/** A reward manager that `reward.manager` can name. */
export interface ManagerDto {
  name: string
  /** Other accepted names. */
  aliases: string[]
  description: string
  options: OptionDto[]
}

/** A judge template that `reward.judge` can name. */
export interface JudgeDto {
  name: string
  kind: 'single' | 'pair'
  turns: { role: string; content: string }[]
  parser: { kind: string; options: Record<string, unknown> }
  /** `k` requests per sample, whose scores are combined. */
  votes: { k: number; combine: string }
  temperature: number
  maxTokens: number
}

/** A reward model with its servers. */
export interface RewardModelDto {
  model: string
  kind: 'discriminative' | 'generative'
  servers: { name: string; state: string; engine: string; version: string | null }[]
}

/** A file of the functions folder. */
export interface FunctionFileDto {
  /** The path, relative to the functions folder. */
  path: string
  /** The hash of the file and its imports, as stored with batches. Null if the file is invalid (see `problem`). */
  hash: string | null
  problem: string | null
  bytes: number
  changedAt: string
  /** Exported names, or null if the file is too large to read. */
  exports: string[] | null
}

/** Everything a batch's `reward` can name. */
export interface RewardsDto {
  rules: RuleDto[]
  managers: ManagerDto[]
  judges: JudgeDto[]
  models: RewardModelDto[]
  functions: {
    /** Absolute path of REWARDOPS_FUNCTIONS_DIR, or null if the caller is not an admin. */
    folder: string | null
    exists: boolean
    files: FunctionFileDto[]
    /** True if more files exist than are listed. */
    hasMore: boolean
  }
}

/** A request to a reward-model server. */
export interface TriedAttempt {
  attempt: number
  serverName: string
  /** Time since the call of rewards.try, ms. */
  startedMs: number
  queueMs: number
  backoffMs: number
  serviceMs: number
  outcome: string
  reason: SampleFailureReason | null
  statusCode: number | null
  detail: string | null
}

/** The outcome of `rewards.try`, or of one of its steps. */
export type TriedEnd =
  | { ok: true; score: number }
  | { ok: false; reason: SampleFailureReason; detail: string }

/** The steps by which a rule scored the sample. */
export interface TriedRule {
  kind: 'rule'
  rule: string
  title: string
  /** The options in force, with defaults. */
  options: Record<string, unknown>
  /** The part of the response with the answer. Null if the rule calls a service or did not start. */
  where: string | null
  /** The answer, or null if none was found. */
  found: string | null
  /** The answer and the reference after each normalization step. */
  forms: { step: string; response: string | null; groundTruth: string | null }[]
  comparison: string | null
  /** The verdict, such as `equal`, `different` or `no answer`, or null if the rule failed. */
  verdict: string | null
  end: TriedEnd
}

/** The steps by which a reward model scored the sample. */
export interface TriedModel {
  kind: 'model'
  model: string
  serverName: string | null
  /** The request as sent to the last server, or null if none was sent. `cut` is true if the body is shortened. */
  request: { engine: string; path: string; body: string; cut: boolean } | null
  promptTokens: number | null
  /** Scores of tokens or steps, if the model returns them. The last one is the score of the sample. */
  tokenScores: number[] | null
  attempts: TriedAttempt[]
  end: TriedEnd
}

/** One request to a judge. */
export interface TriedVote {
  /** Number of the request, from 0. */
  vote: number
  /** True if a pair template showed the response second. */
  swapped: boolean
  serverName: string | null
  messages: { role: string; content: string }[]
  reply: string | null
  reasoning: string | null
  /** The part of the reply that the parser read, or null if it read nothing (see `problem`). */
  read: string | null
  value: number | null
  problem: string | null
  promptTokens: number | null
  completionTokens: number | null
  attempts: TriedAttempt[]
}

/** The steps by which a judge scored the sample. */
export interface TriedJudge {
  kind: 'judge'
  model: string
  /** The name of the judge template. */
  template: string
  parser: string
  votes: TriedVote[]
  combine: string
  end: TriedEnd
}

/** The steps by which a custom reward function or manager class scored the sample. */
export interface TriedFunction {
  kind: 'function'
  role: 'function' | 'manager'
  path: string
  name: string | null
  hash: string
  kwargs: Record<string, unknown>
  tookMs: number
  /** Values that the function returned in addition to the score, or null if there are none. */
  extra: Record<string, unknown> | null
  end: TriedEnd
}

/** The steps by which one component of a composite reward scored the sample. */
export interface TriedComponent {
  name: string
  weight: number
  steps: TriedStep[]
  end: TriedEnd
}

/** The steps by which a composite reward scored the sample. */
export interface TriedSum {
  kind: 'composite'
  components: TriedComponent[]
  end: TriedEnd
}

/** A step of the calculation: one scorer, or a composite reward with the steps of its components. */
export type TriedStep = TriedRule | TriedModel | TriedJudge | TriedFunction | TriedSum

/** The output of `rewards.try`: a scored sample, with every step of the calculation. */
export interface TriedDto {
  /** The name of the model, rule or function. */
  rewardName: string
  resolved: { kind: string; manager: string; why: string; kwargs: Record<string, unknown> }
  steps: TriedStep[]
  /** The change that the manager made to the score, or null if there is no score. */
  manager: { name: string; rawScore: number; score: number; added: number; why: string } | null
  /**
   * The change by `post_process_scores`, applied to a group of this one sample. Null if there is no such function or no
   * score.
   */
  group: { path: string; before: number; end: TriedEnd } | null
  /** The `rewardExtraInfo` that the sample would have in a batch. */
  rewardExtraInfo: Record<string, unknown> | null
  end: TriedEnd
  tookMs: number
}

/** A key of the imported configuration. */
export interface ImportedKeyDto {
  key: string
  /** The line, from 1. */
  line: number
  value: unknown
  /** `not_applicable`: known but unused; `unresolved`: refers to a key outside the text. */
  status: 'supported' | 'not_applicable' | 'unknown' | 'unresolved'
  /** The effect of the key, or the reason why it has none. */
  note: string
  /** The nearest known key. */
  nearest?: string
}

/** The output of `rewards.importConfig`: a verl configuration as a reward. */
export interface ImportedConfigDto {
  /**
   * The layout of verl's reward keys: `current` has all of them below `reward.`, `legacy` has older keys such as
   * `reward_model.…`.
   */
  shape: 'legacy' | 'current' | 'both' | 'none'
  /** The `reward` for batches.submit. */
  reward: z.input<typeof RewardSpec>
  /** The `groupSize` for batches.submit. */
  groupSize: number | null
  /** Worker processes (REWARDOPS_WORKERS). */
  workers: number | null
  /** Whether advantages are divided by the standard deviation. */
  normAdvByStd: boolean | null
  /** The column of the dataset that selects the reward function. Send its value as `dataSource`. */
  dataSourceColumn: string | null
  servers: (Pick<LaunchServerInput, 'name' | 'engine' | 'kind' | 'command' | 'env'> & {
    model: string
    port: number
  })[]
  /** The command that serves a Python reward function. */
  functionServer: {
    /** A file, or `pkg://module`. */
    path: string
    name: string
    kwargs: Record<string, unknown>
    /** The model name under which the server is registered. */
    model: string
    command: string[]
  } | null
  sandbox: { url: string; maxConcurrent: number; memoryLimitMb: number } | null
  /** Every key of the configuration, in the order of the text. */
  keys: ImportedKeyDto[]
  /** Issues to resolve before use. */
  problems: { key: string | null; line: number | null; message: string }[]
}
