import { createTRPCClient, httpLink, type TRPCClient } from '@trpc/client'
import type { inferRouterInputs, inferRouterOutputs } from '@trpc/server'
import type { AppRouter } from '../../../server/api/root.ts'
import type {
  BatchSummary,
  ResultsColumns,
  ScoreResult,
  SubmitResult,
} from '../../../server/contract/trainer.ts'
import { RewardOpsClientError } from './error.ts'
import { RewardPipeline } from './pipeline.ts'
import { Reach } from './reach.ts'
import { resilientLink } from './resilient-link.ts'

/** Every procedure, typed: `api.batches.next.query({…})`. What each does: docs/api.md. */
export type RewardOpsApi = TRPCClient<AppRouter>
/** What the procedures take, by router and name. */
export type RewardOpsInputs = inferRouterInputs<AppRouter>
/** What the procedures give back, by router and name. */
export type RewardOpsOutputs = inferRouterOutputs<AppRouter>
/** A step's rollouts with the reward they are to be scored by. */
export type BatchInput = RewardOpsInputs['batches']['submit']

/** Where the service is, and how long it is waited for. */
export interface RewardOpsClientOptions {
  /** As the service prints it: `http://127.0.0.1:3000`. */
  url: string
  /** One of the service's REWARDOPS_API_KEYS, where it has any. */
  apiKey?: string | null | undefined
  /** How long the first call waits for a service that is just starting, ms; default 2,500. */
  connectMs?: number
  /** How long calls wait for a service that was there before, ms; default 120,000: a restart costs a step nothing but time. */
  outageMs?: number
  /** Told once an outage, in one sentence; default: console.warn. */
  onTrouble?: (sentence: string) => void
  /** Default: the platform's. */
  fetch?: typeof fetch
}

/** A trainer's client. Every method throws RewardOpsClientError. */
export interface RewardOpsClient {
  readonly api: RewardOpsApi
  /** Asks the service whether it is there and takes the key: what is wrong is said here, in one sentence within 5 s. */
  connect(): Promise<void>
  /** Hands a batch over; without an idempotency key it gets one, so that a lost answer is asked for again. */
  submit(batch: BatchInput): Promise<SubmitResult>
  /**
   * Hands a batch over and gives its rewards as they become known. With the same `idempotencyKey` and the cursor of the last
   * chunk as `after`, a restarted trainer goes on where it was.
   */
  computeRewardPipeline(
    batch: BatchInput,
    options?: { after?: string | null; signal?: AbortSignal },
  ): RewardPipeline
  /** The same for a batch that is there. */
  pipelineOf(
    batchId: string,
    options?: { after?: string | null; signal?: AbortSignal },
  ): RewardPipeline
  /** The barrier: all results of a batch in input order, when it has ended. */
  computeRmScore(batch: BatchInput): Promise<{ summary: BatchSummary; results: ResultsColumns }>
  /** One sample in, its reward out. */
  computeScore(input: RewardOpsInputs['samples']['score']): Promise<ScoreResult>
  /** The rollouts of a batch by another reward, as a batch of their own. */
  rescore(input: RewardOpsInputs['batches']['rescore']): Promise<SubmitResult>
  /** Resolves when the batch has ended. */
  wait(batchId: string, options?: { signal?: AbortSignal }): Promise<BatchSummary>
  /** All results of a batch so far, in input order. */
  results(batchId: string): Promise<ResultsColumns>
}

const RESULTS_PAGE = 10_000
const WAIT_MS = 20_000

/** A client of the service at `url`; nothing is sent before the first call. Throws where `url` is no address. */
export function createRewardOpsClient(options: RewardOpsClientOptions): RewardOpsClient {
  const url = addressOf(options.url)
  const apiKey = options.apiKey || null
  const send = options.fetch ?? globalThis.fetch
  const reach = new Reach({ url, apiKey, fetch: send })
  const api: RewardOpsApi = createTRPCClient<AppRouter>({
    links: [
      resilientLink({
        url,
        reach,
        connectMs: options.connectMs ?? 2_500,
        outageMs: options.outageMs ?? 120_000,
        onTrouble: options.onTrouble ?? ((sentence) => console.warn(sentence)),
      }),
      httpLink({
        url: `${url}/api/trpc`,
        headers: apiKey === null ? {} : { authorization: `Bearer ${apiKey}` },
        fetch: (input, init) => send(input as string, init as RequestInit),
      }),
    ],
  })
  const submit = (batch: BatchInput): Promise<SubmitResult> =>
    api.batches.submit.mutate(keyed(batch))
  const wait = async (batchId: string, { signal }: { signal?: AbortSignal } = {}) => {
    for (;;) {
      const summary = await api.batches.wait.query(
        { batchId, waitMs: WAIT_MS },
        signal ? { signal } : {},
      )
      if (summary.completedAt !== null) return summary
    }
  }
  const results = (batchId: string) => allResults(api, batchId)
  return {
    api,
    submit,
    wait,
    results,
    async connect() {
      await api.session.get.query()
    },
    computeRewardPipeline: (batch, given = {}) => new RewardPipeline(api, submit(batch), given),
    pipelineOf(batchId, given = {}) {
      const accepted = api.batches.get
        .query({ batchId })
        .then(({ samples, groups }) => ({ batchId, accepted: samples, groups, duplicate: true }))
      return new RewardPipeline(api, accepted, given)
    },
    async computeRmScore(batch) {
      const { batchId } = await submit(batch)
      const summary = await wait(batchId)
      return { summary, results: await results(batchId) }
    },
    computeScore: (input) => api.samples.score.mutate(keyed(input)),
    rescore: (input) => api.batches.rescore.mutate(keyed(input)),
  }
}

/** With a key of its own, where it has none. */
function keyed<T extends { idempotencyKey?: string | null | undefined }>(input: T): T {
  return input.idempotencyKey ? input : { ...input, idempotencyKey: globalThis.crypto.randomUUID() }
}

/** Page by page; a key that only later samples have begins with nulls. */
async function allResults(api: RewardOpsApi, batchId: string): Promise<ResultsColumns> {
  const page = (offset: number) =>
    api.batches.results.query({ batchId, offset, limit: RESULTS_PAGE })
  const all: ResultsColumns = await page(0)
  for (let full = all.index.length === RESULTS_PAGE; full; ) {
    const before = all.index.length
    const more: ResultsColumns = await page(before)
    for (const key of COLUMNS) (all[key] as unknown[]).push(...more[key])
    for (const key of new Set([...all.rewardExtraKeys, ...more.rewardExtraKeys])) {
      const column = all.rewardExtraInfo[key] ?? new Array(before).fill(null)
      all.rewardExtraInfo[key] = column
      column.push(...(more.rewardExtraInfo[key] ?? new Array(more.index.length).fill(null)))
      if (!all.rewardExtraKeys.includes(key)) all.rewardExtraKeys.push(key)
    }
    full = more.index.length === RESULTS_PAGE
  }
  return all
}

const COLUMNS = [
  ...(['index', 'uid', 'status', 'reason', 'score', 'rawScore'] as const),
  ...(['substituted', 'position', 'advantage'] as const),
]

function addressOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new RewardOpsClientError('invalid_url', `"${url}" is not an address of a service.`, {
      hint: 'Give it as the service prints it: http://127.0.0.1:3000.',
    })
  }
  return `${parsed.origin}${parsed.pathname.replace(/\/+$/, '')}`
}
