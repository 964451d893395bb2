import { createTRPCClient, httpLink } from '@trpc/client'
import type { inferRouterInputs, inferRouterOutputs } from '@trpc/server'
import type { AppRouter } from '../../../server/api/root.ts'
import type { EXPORT_PATH, ExportFormat } from '../../../server/contract/export.ts'
import type { SampleFilterName } from '../../../server/contract/sample-filter.ts'
import type {
  BatchSummary,
  ResultsColumns,
  ScoreResult,
  SubmitResult,
} from '../../../server/contract/trainer.ts'
import { RewardOpsClientError } from './error.ts'
import { ForeignAnswer, isJson, NoAnswer, refusalOf, unreachable } from './failure.ts'
import { type RewardOpsApi, RewardPipeline } from './pipeline.ts'
import { Reach } from './reach.ts'
import { resilientLink } from './resilient-link.ts'

/** Inputs of the procedures, by router and name. */
export type RewardOpsInputs = inferRouterInputs<AppRouter>
/** Outputs of the procedures, by router and name. */
export type RewardOpsOutputs = inferRouterOutputs<AppRouter>
/** A step's rollouts, and the reward that scores them: the input of `batches.submit`. */
export type BatchInput = RewardOpsInputs['batches']['submit']

/** Selects samples and columns of an export. Filters are those of the Samples page's URL, such as `step: '0-99'`. */
export type ExportInput = {
  [Name in SampleFilterName]?: string | number | boolean | readonly string[]
} & {
  /** Default: `jsonl`. */
  format?: ExportFormat
  /** Columns to export, such as `score` and `rewardExtraInfo.acc`; default: all but annotations. */
  columns?: readonly string[]
  /** `kept` includes samples whose texts were removed by retention; these texts are null. */
  texts?: 'all' | 'kept'
  /** The last sample received, such as `b2-117`, after which the export continues; not with Parquet. */
  after?: string
}

export interface RewardOpsClientOptions {
  /** URL that the service prints, such as `http://127.0.0.1:3000`. */
  url: string
  /** One of the service's API keys, if it requires one. */
  apiKey?: string | null | undefined
  /** How long calls to a service that was never reached are retried, in ms; default 2,500. */
  connectMs?: number
  /** How long calls to a service that was reached before are retried, in ms; default 120,000, to cover a restart. */
  outageMs?: number
  /** Called once per outage with a message; default: console.warn. */
  onTrouble?: (sentence: string) => void
  /** Default: the platform's `fetch`. */
  fetch?: typeof fetch
  /**
   * Returns the headers that carry the trainer's trace context, `traceparent` and `tracestate`, for each call. Default:
   * those of the active OpenTelemetry span, if `@opentelemetry/api` is installed.
   */
  traceHeaders?: () => Record<string, string>
}

/** A trainer's client. Every method throws RewardOpsClientError. */
export interface RewardOpsClient {
  readonly api: RewardOpsApi
  /** Checks URL, key and version. Throws within 5 s if one of them is wrong. */
  connect(): Promise<void>
  /** Submits a batch. A missing idempotency key is generated, so that the call is safe to retry after a lost answer. */
  submit(batch: BatchInput): Promise<SubmitResult>
  /**
   * Submits a batch and returns a pipeline of its rewards. With the same `idempotencyKey`, and the cursor of the last
   * chunk as `after`, a restarted trainer continues where it stopped. `signal` ends every wait of `next`, including the
   * wait for the submit. The submit itself continues, so that `cancel` finds its batch.
   */
  computeRewardPipeline(
    batch: BatchInput,
    options?: { after?: string | null; signal?: AbortSignal },
  ): RewardPipeline
  /** Returns a pipeline of the rewards of an existing batch. */
  pipelineOf(
    batchId: string,
    options?: { after?: string | null; signal?: AbortSignal },
  ): RewardPipeline
  /** Submits a batch, waits until it ends and returns all results in input order. */
  computeRmScore(batch: BatchInput): Promise<{ summary: BatchSummary; results: ResultsColumns }>
  /** Scores one sample and returns its reward. */
  computeScore(input: RewardOpsInputs['samples']['score']): Promise<ScoreResult>
  /** Scores the rollouts of a batch with another reward, as a new batch. */
  rescore(input: RewardOpsInputs['batches']['rescore']): Promise<SubmitResult>
  /** Stores the configuration of a run, or changes its tags. The run is created if it does not exist. */
  updateRun(input: RewardOpsInputs['runs']['update']): Promise<RewardOpsOutputs['runs']['update']>
  /** Waits until the batch ends and returns its summary. */
  wait(batchId: string, options?: { signal?: AbortSignal }): Promise<BatchSummary>
  /**
   * Streams samples as JSON Lines, CSV, Parquet or verl's dump, in order of batch and index. The stream fails if the
   * connection breaks. To continue, pass the last sample received as `after`.
   */
  exportSamples(
    input: ExportInput,
    options?: { signal?: AbortSignal },
  ): Promise<ReadableStream<Uint8Array>>
  /** All results of a batch so far, in input order. `tokenScores` adds the token scores of process reward models. */
  results(batchId: string, options?: { tokenScores?: boolean }): Promise<ResultsColumns>
}

const EXPORT: typeof EXPORT_PATH = '/api/export/samples'
const RESULTS_PAGE = 10_000
/** The service's page limit for results with token scores. */
const MAX_RESULTS_PAGE_WITH_TOKENS = 500
const WAIT_MS = 20_000

/** Creates a client, which sends nothing before the first call. Throws RewardOpsClientError (`invalid_url`). */
export function createRewardOpsClient(options: RewardOpsClientOptions): RewardOpsClient {
  const url = addressOf(options.url)
  const apiKey = options.apiKey || null
  const send = options.fetch ?? globalThis.fetch
  const traceHeaders = options.traceHeaders ?? activeTraceHeaders
  const reach = new Reach({ url, apiKey, fetch: send })
  const headers = async (): Promise<Record<string, string>> => ({
    ...(await traceHeaders()),
    ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
  })
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
        headers,
        fetch: async (input, init) => {
          let response: Response
          let body: ArrayBuffer
          try {
            response = await send(input as string, init as RequestInit)
            if (!isJson(response)) throw new ForeignAnswer(response)
            // The connection may break while the body is read.
            body = await response.arrayBuffer()
          } catch (error) {
            throw error instanceof ForeignAnswer ? error : new NoAnswer(error)
          }
          return new Response(body, response)
        },
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
  const results: RewardOpsClient['results'] = (batchId, { tokenScores = false } = {}) =>
    allResults(api, batchId, tokenScores)
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
        .query({ batchId }, given.signal ? { signal: given.signal } : {})
        .then(({ samples, groups }) => ({ batchId, accepted: samples, groups, duplicate: true }))
      return new RewardPipeline(api, accepted, given)
    },
    async computeRmScore(batch) {
      const { batchId } = await submit(batch)
      const summary = await wait(batchId)
      const { reward } = batch
      const rewards = [reward, ...(reward?.combine ?? []).map((component) => component.reward)]
      const tokenScores = rewards.some((one) => one?.tokenScores === true)
      return { summary, results: await results(batchId, { tokenScores }) }
    },
    computeScore: (input) => api.samples.score.mutate(keyed(input)),
    rescore: (input) => api.batches.rescore.mutate(keyed(input)),
    updateRun: (input) => api.runs.update.mutate(input),
    async exportSamples(input, { signal } = {}) {
      await reach.ask()
      let answer: Response
      try {
        answer = await send(`${url}${EXPORT}?${exportSearch(input)}`, {
          headers: await headers(),
          ...(signal ? { signal } : {}),
        })
      } catch (error) {
        throw signal?.aborted ? error : unreachable(url, error)
      }
      if (!answer.ok || answer.body === null) throw await refusalOf(url, answer)
      return answer.body
    },
  }
}

let openTelemetry: Promise<typeof import('@opentelemetry/api') | null> | undefined

/** The trace headers of the active span; empty if the trainer does not use OpenTelemetry. */
async function activeTraceHeaders(): Promise<Record<string, string>> {
  openTelemetry ??= import('@opentelemetry/api').catch(() => null)
  const api = await openTelemetry
  const headers: Record<string, string> = {}
  api?.propagation.inject(api.context.active(), headers)
  return headers
}

function exportSearch({ columns, ...input }: ExportInput): URLSearchParams {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(input)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined) search.append(name, String(one))
    }
  }
  const escaped = columns?.map((name) => name.replaceAll('%', '%25').replaceAll(',', '%2C'))
  if (escaped !== undefined) search.set('columns', escaped.join(','))
  return search
}

function keyed<T extends { idempotencyKey?: string | null | undefined }>(input: T): T {
  return input.idempotencyKey ? input : { ...input, idempotencyKey: globalThis.crypto.randomUUID() }
}

/**
 * Joins all pages of results. If a key of the reward extra info first occurs on a later page, its values are null for
 * the samples of earlier pages.
 */
async function allResults(
  api: RewardOpsApi,
  batchId: string,
  tokenScores: boolean,
): Promise<ResultsColumns> {
  const limit = tokenScores ? MAX_RESULTS_PAGE_WITH_TOKENS : RESULTS_PAGE
  const page = (offset: number) =>
    api.batches.results.query({ batchId, offset, limit, tokenScores })
  const all: ResultsColumns = await page(0)
  for (let full = all.index.length === limit; full; ) {
    const before = all.index.length
    const more: ResultsColumns = await page(before)
    const { rewardExtraKeys, rewardExtraInfo, ...columns } = more
    for (const key of Object.keys(columns) as (keyof typeof columns)[])
      (all[key] as unknown[]).push(...columns[key])
    for (const key of new Set([...all.rewardExtraKeys, ...rewardExtraKeys])) {
      const column = all.rewardExtraInfo[key] ?? new Array(before).fill(null)
      all.rewardExtraInfo[key] = column
      column.push(...(rewardExtraInfo[key] ?? new Array(more.index.length).fill(null)))
      if (!all.rewardExtraKeys.includes(key)) all.rewardExtraKeys.push(key)
    }
    full = more.index.length === limit
  }
  return all
}

function addressOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw new RewardOpsClientError('invalid_url', `"${url}" is not a service URL.`, {
      hint: 'Use the URL that the service prints, such as http://127.0.0.1:3000.',
    })
  }
  return `${parsed.origin}${parsed.pathname.replace(/\/+$/, '')}`
}
