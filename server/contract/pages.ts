import { z } from 'zod'
import type { AnnotationDto } from './annotations.ts'
import { Cursor, Int4, RunName, Step } from './fields.ts'
import type { GroupSignal, GroupSignalCounts } from './group-signal.ts'
import type { Role } from './roles.ts'
import type { RunTableRowDto } from './run-table.ts'
import type { DetailFields, RowFields } from './sample-fields.ts'
import { SampleFilter } from './sample-filter.ts'
import type { ServerDto } from './servers.ts'
import { BatchId, type BatchSummary, type Page, type Result, SampleId } from './trainer.ts'
import type { ChatTurn } from './turn-text.ts'
import type { WorkerStats } from './worker-stats.ts'

/** A worker process, with its last report. */
export interface WorkerDto extends Omit<WorkerStats, 'history' | 'servers'> {
  id: string
  host: string
  pid: number
  /** `dead`: not seen for 5 s, or known to have exited. */
  state: 'alive' | 'stopping' | 'dead'
  startedAt: string
  lastSeenAt: string
  /** True if the service started the worker, false if it was started with `npm run worker`. */
  local: boolean
  /** The last 60 readings, one per second, oldest first. Null for a second without a reading. */
  samplesPerSecondHistory: (number | null)[]
  /** Samples that were requeued when the worker died or stopped. */
  requeued: number
}

/** A problem that the Overview page lists. */
export interface Attention {
  level: 'warning' | 'error'
  title: string
  detail: string
  /** The page with the details. */
  href: string
  /** The affected splits of the run. */
  splits?: ('train' | 'val')[]
}

/** A run on the overview. */
export interface OverviewRunDto
  extends Pick<
    RunTableRowDto,
    'name' | 'status' | 'since' | 'pending' | 'split' | 'lastStep' | 'mean' | 'change'
  > {
  /** Mean scores of the last 50 steps. */
  curve: { step: number; mean: number }[]
}

/** The output of `overview.get`. */
export interface OverviewDto {
  /** True if the service has no batches. */
  empty: boolean
  /** The runs that are scoring, then those with the newest batches; at most six. */
  runs: OverviewRunDto[]
  attention: Attention[]
  figures: {
    samplesPerSecond: number
    samplesPerSecondHistory: (number | null)[]
    inFlight: number
    queued: number
    /** Batches that have not ended. */
    activeBatches: number
    /** Failed samples of all batches submitted within the last hour. */
    failedLastHour: number
    /** Scored samples of all batches submitted within the last hour. */
    scoredLastHour: number
    /** Samples of validation batches that `scoredLastHour` includes. */
    validationLastHour: number
    /** Samples of rescored batches that `scoredLastHour` includes. */
    rescoredLastHour: number
    workersAlive: number
    serversReady: number
    serversTotal: number
  }
  servers: ServerDto[]
  workers: WorkerDto[]
  activeBatches: BatchProgressDto[]
}

/** A batch with its speed and the estimated time left. */
export interface BatchProgressDto extends BatchSummary {
  /** Samples scored or failed per second over the last 5 s. */
  samplesPerSecond: number
  /** Estimated time left at that rate, or null if unknown. */
  etaMs: number | null
}

/** A bar for one score, or a bin (`from` ≤ score < `to`; the last bin includes `to`). */
export interface DistributionBin {
  from: number
  to: number
  count: number
}
/** The distribution of scores: bars for few distinct scores, otherwise a histogram. */
export interface Distribution {
  kind: 'bars' | 'histogram'
  /** Number of counted samples. Failed and substituted samples are left out. */
  n: number
  bins: DistributionBin[]
}

/** Maximum number of a batch's data sources, and of its servers, that are listed. */
export const MAX_BREAKDOWN_ROWS = 50

/** A batch with everything that its page shows except the groups. */
export interface BatchViewDto extends BatchProgressDto {
  /** Time at which retention removed the batch's texts, or null if they are stored. */
  textsRemovedAt: string | null
  /** Time at which retention removed samples and groups, or null if they are stored. */
  samplesRemovedAt: string | null
  /** The reward as resolved when the batch was accepted. */
  reward: Record<string, unknown>
  /** The oldest 50 rescores of this batch. */
  rescores: string[]
  groupSize: number | null
  priority: number
  deadlineAt: string | null
  /** True if the batch accepts more samples. */
  open: boolean
  /** The 50 data sources with the most samples. */
  dataSources: {
    dataSource: string
    samples: number
    scored: number
    failed: number
    mean: number | null
  }[]
  failures: { reason: string; count: number }[]
  distribution: Distribution
  /** Completed groups by signal, also while the batch runs. */
  groupSignals: GroupSignalCounts
  queueMsP50: number | null
  queueMsP95: number | null
  scoreMsP50: number | null
  scoreMsP95: number | null
  /** Samples and latencies of the 50 reward-model servers with the most samples; empty for rules. */
  servers: { serverName: string; samples: number; p50Ms: number | null; p99Ms: number | null }[]
  /** Completed groups over time since submission, at most 200 points. */
  completion: { ms: number; groups: number }[]
}

/** The input of `batches.view`. */
export const BatchViewInput = z.strictObject({ batchId: BatchId })
/** The input of `batches.groups`. */
export const BatchGroupsInput = z.strictObject({
  batchId: BatchId,
  /** Only groups with a higher completion number (`seq`) than this. */
  after: Int4.default(0),
  limit: z.int().min(1).max(500).default(100),
  /** `completion`: oldest first; `latest`: newest first. */
  order: z.enum(['completion', 'latest']).default('completion'),
})
/** A completed group on the batch page. Statistics leave out failed and substituted samples. */
export interface BatchGroupDto {
  uid: string
  /** The completion number within the batch, from 1. */
  seq: number
  completedAt: string
  /** Time from the acceptance of the batch to the completion of the group. */
  completedMs: number
  size: number
  failed: number
  mean: number | null
  std: number | null
  min: number | null
  max: number | null
  signal: GroupSignal
  scores: (number | null)[]
  /** The index of the sample that was scored or failed last. */
  slowestIndex: number | null
  slowestQueueMs: number | null
  slowestScoreMs: number | null
}

/** The input of `samples.list`: a filter, an order and a page. */
export const SampleListInput = SampleFilter.extend({
  sort: z.enum(['newest', 'worst', 'best', 'slowest']).default('newest'),
  cursor: Cursor.nullish(),
  limit: z.int().min(1).max(200).default(100),
})
export type SampleListInput = z.infer<typeof SampleListInput>

/** The input of `samples.facets`. */
export const SampleFacetsInput = z.strictObject({
  run: RunName.optional(),
  batch: BatchId.optional(),
  step: Step.optional(),
  split: z.enum(['train', 'val']).optional(),
  rescored: z.boolean().optional(),
})
export type SampleFacetsInput = z.infer<typeof SampleFacetsInput>

/** Values to filter by, with their numbers of samples. */
export interface SampleFacetsDto {
  batches: number
  /** Batches that run or have just ended; their data sources and reasons are not counted yet. */
  pending: number
  /** True if older batches are left out. */
  capped: boolean
  /** Samples by status; `waiting` is queued or running. */
  statuses: { scored: number; failed: number; waiting: number }
  dataSources: { name: string; samples: number; failed: number }[]
  reasons: { reason: string; samples: number }[]
  verdicts: { verdict: string; samples: number }[]
}

/** A sample without its texts. */
export interface SampleRowDto extends Result, RowFields {
  id: string
  batchId: string
  run: string
  step: number
  split: 'train' | 'val'
  /** The batch whose rollouts were rescored; otherwise null. */
  rescoredFrom: string | null
  dataSource: string
  endedAt: string | null
  /** The labels of the sample's annotations, without repeats. */
  labels: string[]
}

/** A page of samples, with the extent of the search. */
export interface SamplePageDto extends Page<SampleRowDto> {
  searched: {
    batches: number
    samples: number
    /** The oldest batch searched. */
    oldest: string | null
    /** True if the search was complete. */
    all: boolean
    /** For a text search: samples whose texts were searched, and those whose texts are removed. */
    texts: { samples: number; dropped: number } | null
  }
}

/** An attempt: one request to a reward-model server, or one evaluation of a rule. */
export interface AttemptDto {
  attempt: number
  serverName: string | null
  workerId: string | null
  startedAt: string
  /** The wait for a free slot before this attempt. */
  queueMs: number
  /** The wait after the previous attempt failed. */
  backoffMs: number
  serviceMs: number
  outcome: string
  reason: string | null
  statusCode: number | null
  detail: string | null
}

/** The input of `samples.get`. */
export const SampleDetailInput = z.strictObject({
  id: SampleId,
  /**
   * If true, the URL of a stored image is `data:image/…;base64,/<SHA-256>`, and `GET /api/images/<SHA-256>` returns the
   * image. If false, messages are returned as they were sent.
   */
  imagesByHash: z.boolean().default(false),
})
export type SampleDetailInput = z.infer<typeof SampleDetailInput>

/** A sample with its texts, attempts and group. */
export interface SampleDetailDto extends SampleRowDto, DetailFields {
  /** Time at which retention removed the texts, or null if they are stored. Removed texts are empty. */
  textsRemovedAt: string | null
  annotations: AnnotationDto[]
  /** The key of the prompt for `prompts.history`, or null if the prompt has no visits yet. */
  promptKey: string | null
  prompt: string | ChatTurn[]
  /** The response as text; for a trajectory, all messages as one text. */
  response: string
  /** The response's messages as sent, with `""` for a missing or null `content`. Null if plain text was sent. */
  messages: ChatTurn[] | null
  groundTruth: unknown
  extraInfo: Record<string, unknown>
  rewardName: string
  /** For custom functions: the version; otherwise null. */
  rewardVersion: string | null
  submittedAt: string
  dispatchedAt: string | null
  attemptLog: AttemptDto[]
  /** GRPO's advantage; null until the group is complete, and for failed and substituted samples. */
  advantage: number | null
  /** The signal of the sample's group; null until the group is complete. */
  groupSignal: GroupSignal | null
  siblings: { id: string; index: number; status: string; score: number | null }[]
}

/** A topic of live updates. When a topic changes, pages refetch its queries. `batch:<id>` is the topic of one batch. */
export type Topic =
  | 'overview'
  | 'workers'
  | 'servers'
  | 'batches'
  | 'samples'
  | 'monitors'
  | 'marks'
  | 'runs'
  | `batch:${string}`

/** The topics that have changed. At most about three of these events are sent per second. */
export interface LiveEvent {
  seq: number
  at: string
  /** `batch:<id>` for each changed batch. */
  topics: Topic[]
}

/** The caller, and the URL of the service. */
export interface SessionDto {
  /** `open`: no keys are required (loopback only). `key`: a key is required. */
  auth: 'open' | 'key'
  signedIn: boolean
  /** The name of the caller, or null if not signed in. */
  name: string | null
  role: Role | null
  /** True if the caller sent a key, false for a local caller without a key. */
  hasKey: boolean
  /** True if the key of the caller has the access `read` (see `keys.create`). */
  isReadOnly: boolean
  version: string
  /** The URL under which the browser reached the service. Pages show it in examples to copy. */
  address: string
}
