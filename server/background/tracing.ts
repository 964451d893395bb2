import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { ROOT_CONTEXT, SpanKind, TraceFlags, trace as traceApi } from '@opentelemetry/api'
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  SamplingDecision,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace'
import { ATTR_SERVICE_NAME, ATTR_SERVICE_VERSION } from '@opentelemetry/semantic-conventions'
import type { TracingConfig } from '../config.ts'
import type { Logger } from '../log.ts'
import type { Database } from '../store/database.ts'
import { PeriodicTask } from '../store/periodic-task.ts'
import {
  batchesToTrace,
  endTrace,
  type TracedBatch,
  tracedAttempts,
  tracedGroups,
} from '../store/sql/traces.ts'
import { type TraceContext, traceOfHeaders } from '../trace-context.ts'
import { TraceSpans } from './trace-spans.ts'

const TICK_MS = 1_000
const MAX_BATCHES = 16
/** Number of groups or samples whose spans are sent in one request. A request takes about 15 ms of event-loop time. */
const PAGE = 512
/** The spans of a batch are dropped if they could not be exported within this time after its end. */
const GIVE_UP_MS = 3_600_000

/**
 * Exports the spans of ended batches over OTLP. Spans are built from the stored groups and attempts, so scoring only
 * sends the `traceparent` header, and a failed export can be repeated for up to an hour. This module is loaded only if
 * tracing is on.
 */
export class Tracing {
  readonly #db: Database
  readonly #log: Logger
  readonly #sampler: Sampler
  readonly #exporter: SpanExporter
  readonly #spans: TraceSpans
  readonly #task: PeriodicTask
  #isFailing = false
  /**
   * `exported`: number of spans that the collector accepted. `droppedBatches`: number of batches whose spans it did not
   * accept within an hour.
   */
  readonly counts = { exported: 0, droppedBatches: 0 }

  constructor(options: {
    config: TracingConfig
    exporter: SpanExporter
    version: string
    db: Database
    isTurn?: () => Promise<boolean>
    log: Logger
  }) {
    const { config, version, db, log } = options
    this.#db = db
    this.#log = log
    this.#sampler = samplerOf(config)
    this.#exporter = options.exporter
    const given = detectResources({ detectors: [envDetector] })
    const named = resourceFromAttributes({
      [ATTR_SERVICE_NAME]: 'rewardops',
      [ATTR_SERVICE_VERSION]: version,
    })
    this.#spans = new TraceSpans(defaultResource().merge(named).merge(given), version)
    this.#task = new PeriodicTask({
      everyMs: TICK_MS,
      failed: 'traces were not exported',
      log,
      isTurn: options.isTurn,
      work: () => this.tick(),
    })
  }

  start(): void {
    this.#task.start()
  }

  async stop(): Promise<void> {
    await this.#task.stop()
    await this.#exporter.shutdown()
  }

  /**
   * Returns the trace that the request's headers name. If the headers name none, returns a new trace if the sampler
   * selects the request, otherwise null.
   */
  contextOf(headers: IncomingHttpHeaders): TraceContext | null {
    const given = traceOfHeaders(headers)
    const traceId = given?.traceId ?? randomBytes(16).toString('hex')
    const parent =
      given?.parentId == null
        ? ROOT_CONTEXT
        : traceApi.setSpanContext(ROOT_CONTEXT, {
            traceId,
            spanId: given.parentId,
            traceFlags: given.isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE,
            isRemote: true,
          })
    const { decision } = this.#sampler.shouldSample(
      parent,
      traceId,
      'rl.reward.batch',
      SpanKind.SERVER,
      {},
      [],
    )
    const isSampled = decision === SamplingDecision.RECORD_AND_SAMPLED
    if (given !== null) return { ...given, isSampled }
    return isSampled ? { traceId, parentId: null, isSampled, state: null } : null
  }

  /** Exports ended batches. If a batch cannot be exported, that batch and the later ones wait for the next tick. */
  async tick(): Promise<void> {
    for (const batch of await batchesToTrace(this.#db, MAX_BATCHES)) {
      const problem = await this.#exportBatch(batch)
      if (problem !== null) {
        if (this.#task.stopping) return
        if (!this.#isFailing) {
          this.#log.warn({ err: problem.message }, 'traces cannot be exported; trying again')
        }
        this.#isFailing = true
        if (batch.endedAgoMs < GIVE_UP_MS) return
        this.counts.droppedBatches++
      } else this.#isFailing = false
      await endTrace(this.#db, batch.id)
    }
  }

  async #exportBatch(batch: TracedBatch): Promise<Error | null> {
    for await (const page of this.#pagesOf(batch)) {
      if (this.#task.stopping) return new Error('the server is stopping')
      const problem = await new Promise<Error | null>((resolve) => {
        this.#exporter.export(page, ({ code, error }) =>
          resolve(code === 0 ? null : (error ?? new Error('the collector refused the spans'))),
        )
      })
      if (problem !== null) return problem
      this.counts.exported += page.length
    }
    return null
  }

  async *#pagesOf(batch: TracedBatch): AsyncGenerator<ReadableSpan[]> {
    yield [this.#spans.ofBatch(batch)]
    for (let from = 0; ; ) {
      const groups = await tracedGroups(this.#db, batch.id, from, PAGE)
      const last = groups.at(-1)
      if (last === undefined) break
      yield groups.map((group) => this.#spans.ofGroup(batch, group))
      from = last.no + 1
    }
    for (let from = 0; from < batch.samples; from += PAGE) {
      const attempts = await tracedAttempts(this.#db, batch.id, from, from + PAGE)
      if (attempts.length > 0) yield attempts.flatMap((one) => this.#spans.ofAttempt(batch, one))
    }
  }
}

/** Loads the exporter of a protocol. It reads its endpoint, headers, timeout and certificates from OTEL_ variables. */
export async function loadExporter({ protocol }: TracingConfig): Promise<SpanExporter> {
  const { OTLPTraceExporter } =
    protocol === 'http/json'
      ? await import('@opentelemetry/exporter-trace-otlp-http')
      : await import('@opentelemetry/exporter-trace-otlp-proto')
  return new OTLPTraceExporter()
}

function samplerOf({ sampler, ratio }: TracingConfig): Sampler {
  const own = sampler.replace('parentbased_', '')
  const root =
    own === 'always_on'
      ? new AlwaysOnSampler()
      : own === 'always_off'
        ? new AlwaysOffSampler()
        : new TraceIdRatioBasedSampler(ratio)
  return own === sampler ? root : new ParentBasedSampler({ root })
}
