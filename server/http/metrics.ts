import type { IncomingMessage, ServerResponse } from 'node:http'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { RewardOpsError } from '../errors.ts'
import type { Logger } from '../log.ts'
import { Memo } from '../memo.ts'
import { plainText } from '../plain-text.ts'
import type { Database } from '../store/database.ts'
import { MetricsReader, NO_FIGURES } from '../store/metrics-reader.ts'
import { withTimeout } from '../with-timeout.ts'
import type { Access } from './access.ts'
import {
  counter,
  type Family,
  gauge,
  metricFamilies,
  type ProcessView,
  single,
} from './metric-families.ts'

/** Time for which an answer is cached, in ms. Thanks to the cache, several scrapers cost as much as one. */
const KEEP_MS = 1_000
/** Time limit for the database's answer, in ms. After that, the database is reported as down. */
const DATABASE_MS = 2_000
/** Gauges of prom-client that are left out, because they are named like counters. */
const MISNAMED = ['handles', 'requests', 'resources'].map(
  (of) => `rewardops_nodejs_active_${of}_total`,
)

export interface MetricsSources {
  /**
   * The connection pool of the pages. It is used so that the health check's connection stays free. A scrape waits at
   * most 2 s for a connection.
   */
  db: Database
  access: Access
  version: string
  /** The statistics of the servers in this process's router; null if the process has no router. */
  own: (() => ProcessView) | null
  liveStreams(): number
  /** Pending samples without a job that this process returned to the queue. */
  orphanedSamples(): number
  /** Spans exported, and batches of spans whose export was given up; null if tracing is off. */
  traces: { exported: number; droppedBatches: number } | null
  log: Logger
}

/** `GET /metrics` in Prometheus' text format: servers, workers, batches, queues and this process. */
export function createMetrics(sources: MetricsSources) {
  const { access, log } = sources
  const reader = new MetricsReader(sources.db)
  void reader.begin().catch((error: Error) => {
    log.debug({ err: error.message }, 'counters start with the first scrape')
  })
  const ofProcess = new Registry()
  collectDefaultMetrics({ register: ofProcess, prefix: 'rewardops_' })
  for (const name of MISNAMED) ofProcess.removeSingleMetric(name)
  const memo = new Memo<string>(KEEP_MS)

  async function families(): Promise<Family[]> {
    const figures = await withTimeout(reader.read(), DATABASE_MS).catch((error: Error) => {
      log.debug({ err: error.message }, 'metrics not read')
      return null
    })
    const views = new Map<string, ProcessView>()
    for (const { id, stats } of figures?.workers ?? []) {
      views.set(`w${id}`, (stats.servers ?? {}) as ProcessView)
    }
    if (sources.own !== null) views.set('server', sources.own())
    return [
      ...processFamilies({
        version: sources.version,
        isDatabaseUp: figures !== null,
        liveStreams: sources.liveStreams(),
        orphanedSamples: sources.orphanedSamples(),
        wrongKeys: access.wrongKeys.counts,
      }),
      ...(sources.traces === null ? [] : traceFamilies(sources.traces)),
      ...(figures === null ? [] : Object.values(metricFamilies(figures, views)).flat()),
    ]
  }

  async function text(): Promise<string> {
    const registry = new Registry()
    for (const family of await families()) {
      // The registry accepts any object with a name and values. A counter of prom-client would not work, because it
      // cannot be set to a value.
      const plain = { ...family, help: plainText(family.help) }
      registry.registerMetric({ name: family.name, get: async () => plain } as never)
    }
    // Values not measured yet are NaN. They are left out, because a NaN turns every sum over it into NaN.
    return (await Registry.merge([registry, ofProcess]).metrics()).replaceAll(/^.* Nan\n/gm, '')
  }

  return async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    if (req.method !== 'GET' && req.method !== 'HEAD') {
      throw new RewardOpsError('method_not_allowed', '/metrics accepts only GET.')
    }
    access.admit(req, 'metrics')
    const body = await memo.get('', text)
    res.writeHead(200, {
      'content-type': ofProcess.contentType,
      'content-length': Buffer.byteLength(body),
    })
    res.end(req.method === 'HEAD' ? undefined : body)
  }
}

/** Returns all metrics, without series, by section of docs/metrics.md. */
export function describeMetrics() {
  return {
    ...metricFamilies(NO_FIGURES, new Map()),
    process: processFamilies(NO_PROCESS_FIGURES),
    tracing: traceFamilies({ exported: 0, droppedBatches: 0 }),
  }
}

interface ProcessFigures {
  version: string
  isDatabaseUp: boolean
  liveStreams: number
  orphanedSamples: number
  wrongKeys: Access['wrongKeys']['counts']
}

const NO_PROCESS_FIGURES: ProcessFigures = {
  version: '',
  isDatabaseUp: false,
  liveStreams: 0,
  orphanedSamples: 0,
  wrongKeys: { unauthorized: 0, tooMany: 0 },
}

function processFamilies(figures: ProcessFigures): Family[] {
  const info = { version: figures.version, node_version: process.version }
  return [
    gauge(
      'build_info',
      'Always 1. The labels are the `version` of the service and `node_version`.',
      [{ labels: info, value: 1 }],
    ),
    gauge(
      'database_up',
      '1 if the database answered within 2 s, otherwise 0. At 0, only the metrics of this section are reported.',
      single(figures.isDatabaseUp ? 1 : 0),
    ),
    gauge(
      'live_streams',
      'Open live streams, which update the pages in browsers.',
      single(figures.liveStreams),
    ),
    counter(
      'orphaned_samples_total',
      'Pending samples that had lost their job in the queue and were queued again. A value above 0 indicates a bug: please report it.',
      single(figures.orphanedSamples),
    ),
    counter(
      'wrong_keys_total',
      'Requests with a wrong API key, by `reason`: `unauthorized`, or `too_many_wrong_keys` during the [back-off](access.md#wrong-keys) of their IP address.',
      [
        { labels: { reason: 'unauthorized' }, value: figures.wrongKeys.unauthorized },
        { labels: { reason: 'too_many_wrong_keys' }, value: figures.wrongKeys.tooMany },
      ],
    ),
  ]
}

function traceFamilies(traces: NonNullable<MetricsSources['traces']>): Family[] {
  return [
    counter(
      'trace_spans_exported_total',
      'Spans that the OpenTelemetry collector accepted.',
      single(traces.exported),
    ),
    counter(
      'trace_batches_dropped_total',
      'Traced batches whose spans were dropped because the collector did not accept them within an hour.',
      single(traces.droppedBatches),
    ),
  ]
}
