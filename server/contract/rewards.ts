import { z } from 'zod'
import type { SampleFailureReason } from './sample-reason.ts'
import type { LaunchServerInput } from './servers.ts'
import { Prompt, RewardSpec } from './trainer.ts'

/** What the Rewards page asks and is told: what is registered, one sample tried, a configuration imported. */

/** Characters of a sample that is tried, prompt and response together; a rule is linear in them. */
const MAX_TRIED_CHARS = 500_000
/** Characters of a configuration; upstream's composed one has about 40,000. */
const MAX_CONFIG_CHARS = 400_000

/** `rewards.try`: one sample and a reward. It is scored as in a batch, and nothing of it is stored. */
export const TryInput = z
  .strictObject({
    sample: z.strictObject({
      dataSource: z.string().max(256).default(''),
      prompt: Prompt,
      response: z.string(),
      groundTruth: z.unknown().optional(),
      extraInfo: z.record(z.string(), z.unknown()).nullish(),
      responseLength: z.int().min(0).max(2_147_483_647).nullish(),
    }),
    reward: RewardSpec.prefault({}),
    /** Time limit of the call. A sample over it ends as `deadline`. */
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

/** `rewards.importConfig`: upstream's YAML, or the overrides of a command line. */
export const ImportConfigInput = z.strictObject({
  text: z.string().max(MAX_CONFIG_CHARS, `is longer than ${MAX_CONFIG_CHARS} characters`),
})
export type ImportConfigInput = z.infer<typeof ImportConfigInput>

/** `rewards.components`: of this run, or of the newest that has any. */
export const ComponentsInput = z.strictObject({ run: z.string().max(256).optional() })

/** A component of a reward in one batch: over the scored samples that have it. */
export interface ComponentPointDto {
  batchId: string
  step: number
  n: number
  mean: number
  /** With n − 1; null of a single one. */
  std: number | null
}

/** One component over the steps of a run, the oldest first. */
export interface ComponentDto {
  /** A part's name or a dimension's key; empty: the reward itself. */
  name: string
  /** In the newest batch; null: it has none. */
  weight: number | null
  points: ComponentPointDto[]
}

/** Components of a run's rewards over its steps. */
export interface ComponentsDto {
  /** Runs whose newest batches have components. */
  runs: string[]
  run: string | null
  components: ComponentDto[]
  /** Batches that have not ended, and are not in it. */
  running: number
  /** Batches that are not added up yet: ask again. */
  pending: number
  /** There are older batches. */
  hasMore: boolean
}

/** One option that a rule or manager takes in `reward.kwargs`. */
export interface OptionDto {
  /** Dotted where it lies within another. */
  name: string
  /** `number`, `text`, `true or false` … */
  type: string
  /** The values it may have, where they are few. */
  choices: string[] | null
  /** As JSON; null: it has none. */
  defaultJson: string | null
  description: string
}

/** A scorer that is built in. */
export interface RuleDto {
  name: string
  title: string
  /** Exact names, or a prefix as in `aime*`; none: it is chosen by its name alone. */
  dataSources: string[]
  /** It asks a service over HTTP. */
  callsService: boolean
  options: OptionDto[]
}

/** A reward manager. */
export interface ManagerDto {
  name: string
  /** Other names that are taken for it. */
  aliases: string[]
  description: string
  options: OptionDto[]
}

/** How a generative model judges. */
export interface JudgeDto {
  name: string
  kind: 'single' | 'pair'
  turns: { role: string; content: string }[]
  parser: { kind: string; options: Record<string, unknown> }
  votes: { k: number; combine: string }
  temperature: number
  maxTokens: number
}

/** A reward model, and the servers it is asked of. */
export interface RewardModelDto {
  model: string
  kind: 'discriminative' | 'generative'
  servers: { name: string; state: string; engine: string; version: string | null }[]
}

/** A file of the functions folder. */
export interface FunctionFileDto {
  /** Under the folder. */
  path: string
  /** Of it and what it imports, as samples remember it; null where it cannot be read, see `problem`. */
  hash: string | null
  problem: string | null
  bytes: number
  changedAt: string
  /** Names it exports, as its text says them; null: too large to look. */
  exports: string[] | null
}

/** Everything a batch's `reward` can name. */
export interface RewardsDto {
  rules: RuleDto[]
  managers: ManagerDto[]
  judges: JudgeDto[]
  models: RewardModelDto[]
  functions: {
    /** As it is set (REWARDOPS_FUNCTIONS_DIR). */
    folder: string
    /** Whether the folder is there. */
    exists: boolean
    files: FunctionFileDto[]
    /** There are more files than are listed. */
    hasMore: boolean
  }
}

/** A call to a reward-model server, in its order. */
export interface TriedAttempt {
  attempt: number
  serverName: string
  /** After the try began. */
  startedMs: number
  queueMs: number
  backoffMs: number
  serviceMs: number
  outcome: string
  reason: SampleFailureReason | null
  statusCode: number | null
  detail: string | null
}

/** A score, or the reason there is none. */
export type TriedEnd =
  | { ok: true; score: number }
  | { ok: false; reason: SampleFailureReason; detail: string }

/** What a rule did. */
export interface TriedRule {
  kind: 'rule'
  rule: string
  title: string
  /** Its options as they were used, defaults filled in. */
  options: Record<string, unknown>
  /** Where the answer was looked for; null: the rule asks a service, or could not begin. */
  where: string | null
  found: string | null
  forms: { step: string; response: string | null; groundTruth: string | null }[]
  comparison: string | null
  /** `equal`, `different`, `no answer` …; null where it failed. */
  verdict: string | null
  end: TriedEnd
}

/** What a discriminative model was asked, and what it said. */
export interface TriedModel {
  kind: 'model'
  model: string
  serverName: string | null
  /** As it went over the wire to the last server asked; null: none was. */
  request: { engine: string; path: string; body: string; cut: boolean } | null
  promptTokens: number | null
  /** Scores of tokens or steps, where the model gives them; the last is the score. */
  tokenScores: number[] | null
  attempts: TriedAttempt[]
  end: TriedEnd
}

/** One call of a judge. */
export interface TriedVote {
  /** From 0. */
  vote: number
  /** In a pair: the response was shown second. */
  swapped: boolean
  serverName: string | null
  messages: { role: string; content: string }[]
  reply: string | null
  reasoning: string | null
  /** The words of the reply that the parser read; null: it could not, see `problem`. */
  read: string | null
  value: number | null
  problem: string | null
  promptTokens: number | null
  completionTokens: number | null
  attempts: TriedAttempt[]
}

/** What a judge was asked, replied and was understood to say. */
export interface TriedJudge {
  kind: 'judge'
  model: string
  template: string
  parser: string
  votes: TriedVote[]
  combine: string
  end: TriedEnd
}

/** What a reward function gave, or a manager class of the user's own. */
export interface TriedFunction {
  kind: 'function'
  role: 'function' | 'manager'
  path: string
  name: string | null
  hash: string
  kwargs: Record<string, unknown>
  tookMs: number
  /** What it gave beside the score. */
  extra: Record<string, unknown> | null
  end: TriedEnd
}

/** A part of a weighted sum. */
export interface TriedComponent {
  name: string
  weight: number
  steps: TriedStep[]
  end: TriedEnd
}

/** A weighted sum of parts. */
export interface TriedSum {
  kind: 'sum'
  components: TriedComponent[]
  end: TriedEnd
}

/** One scorer's work. */
export type TriedStep = TriedRule | TriedModel | TriedJudge | TriedFunction | TriedSum

/** One sample scored by hand, and how that came about. */
export interface TriedDto {
  /** What scored: a model's, rule's or function's name. */
  rewardName: string
  resolved: { kind: string; manager: string; why: string; kwargs: Record<string, unknown> }
  steps: TriedStep[]
  /** What the manager made of the scorer's score. */
  manager: { name: string; rawScore: number; score: number; added: number; why: string } | null
  /** What `post_process_scores` made of it, as a group of one; null: there is none, or no score to change. */
  group: { path: string; before: number; end: TriedEnd } | null
  /** `rewardExtraInfo` of the sample, had it been in a batch. */
  rewardExtraInfo: Record<string, unknown> | null
  end: TriedEnd
  tookMs: number
}

/** A key of an imported configuration. */
export interface ImportedKeyDto {
  key: string
  /** From 1. */
  line: number
  value: unknown
  status: 'honoured' | 'not_applicable' | 'unknown' | 'unresolved'
  /** How it is honoured, or why it is not. */
  note: string
  nearest?: string
}

/** Upstream's configuration in our words. */
export interface ImportedConfigDto {
  shape: 'legacy' | 'current' | 'both' | 'none'
  reward: z.input<typeof RewardSpec>
  groupSize: number | null
  workers: number | null
  normAdvByStd: boolean | null
  dataSourceColumn: string | null
  servers: (Pick<LaunchServerInput, 'name' | 'engine' | 'kind' | 'command' | 'env'> & {
    model: string
    port: number
  })[]
  functionServer: {
    path: string
    name: string
    kwargs: Record<string, unknown>
    model: string
    command: string[]
  } | null
  sandbox: { url: string; maxConcurrent: number; memoryLimitMb: number } | null
  keys: ImportedKeyDto[]
  problems: { key: string | null; line: number | null; message: string }[]
}
