import type { SelfTestVerdict } from '../contract/self-test-verdict.ts'
import { mostInFlight, SERVER_STATES } from '../contract/servers.ts'
import type { WorkerServerStats, WorkerStats } from '../contract/worker-stats.ts'
import { LATENCY_BOUNDS_MS, LATENCY_BUCKET_RATIO } from '../router/latency-histogram.ts'
import type { CallFigures, Figures, ServerFigures } from '../store/metrics-reader.ts'
import type { LastBatch, RunCounts } from '../store/run-totals.ts'

export interface Series {
  labels: Record<string, string>
  value: number
  /** For a histogram: the name with `_bucket`, `_sum` or `_count`. */
  metricName?: string
}

export interface Family {
  name: string
  /**
   * Markdown sentences, with links relative to docs/. docs/metrics.md shows them as Markdown, and `/metrics` as plain
   * text.
   */
  help: string
  type: 'counter' | 'gauge' | 'histogram'
  values: Series[]
}

/** The server statistics of one process, by server id. */
export type ProcessView = Partial<Record<string, WorkerServerStats>>

const VERDICTS: Record<SelfTestVerdict, true> = {
  raw: true,
  constant: true,
  label_unknown: true,
  squashed: true,
  inverted: true,
  truncated: true,
  differs: true,
  unverified: true,
  not_applicable: true,
  failed: true,
}
const BATCH_STATES = ['open', 'running', 'completed', 'cancelled', 'failed']
const HEALTH = ['ok', 'suspect', 'ejected', 'half_open', 'slow_start'] as const
/** Every fourth bucket of the router's latency histogram, so each bound is twice the previous one: 1.6 ms to 210 s. */
const DURATION_BUCKETS = Array.from({ length: 18 }, (_, i) => 4 * (i + 4))

/**
 * The metrics of servers, workers, batches, runs and queues, from the database and the processes, by section of
 * docs/metrics.md. `views`: server statistics by process name.
 */
export function metricFamilies(figures: Figures, views: ReadonlyMap<string, ProcessView>) {
  return {
    servers: serverFamilies(figures, views),
    workers: workerFamilies(figures),
    batches: loopFamilies(figures),
    runs: runFamilies(figures),
  } satisfies Record<string, Family[]>
}

function serverFamilies(figures: Figures, views: ReadonlyMap<string, ProcessView>): Family[] {
  const { servers, calls } = figures
  const labels = new Map(
    servers.map((s) => [s.id, { server: s.name, model: s.model, engine: s.engine }]),
  )
  const each = (values: (server: ServerFigures) => { labels?: object; value: number }[]) =>
    servers.flatMap((server) =>
      values(server).map((v) => ({
        value: v.value,
        labels: { ...labels.get(server.id), ...v.labels } as Record<string, string>,
      })),
    )
  const one = (value: (server: ServerFigures) => number) => each((s) => [{ value: value(s) }])
  const counted = (key: 'requests' | 'retries' | 'hedges' | 'tokens') =>
    one((s) => calls.get(s.id)?.[key] ?? 0)
  const seen = (key: 'inFlight' | 'slots' | 'waiting' | 'tokensPerSecond') =>
    one((s) => sum(viewsOf(s, views).map((view) => view[key] ?? 0)))
  return [
    gauge(
      'server_up',
      '1 if the state of the server is `ready`, otherwise 0.',
      one((s) => flag(s.state === 'ready')),
    ),
    gauge(
      'server_state',
      'One series for each [`state`](servers.md#states): 1 for the current state of the server, 0 for the others.',
      each((s) =>
        SERVER_STATES.map((state) => ({ labels: { state }, value: flag(s.state === state) })),
      ),
    ),
    gauge(
      'server_health_processes',
      `Number of processes by the \`health\` that their router assigns to the server ([failures](router.md#failures)): ${HEALTH.map((health) => `\`${health}\``).join(', ')}.`,
      each((s) =>
        HEALTH.map((health) => ({
          labels: { health },
          value: viewsOf(s, views).filter((view) => view.health === health).length,
        })),
      ),
    ),
    gauge('server_in_flight', 'Requests that the server has not answered yet.', seen('inFlight')),
    gauge(
      'server_slots',
      'Slots that processes report that they hold. A slot permits one request in flight.',
      seen('slots'),
    ),
    gauge(
      'server_lease_slots',
      'Slots that processes hold, according to the unexpired leases in the database.',
      one((s) => s.lease_slots),
    ),
    gauge(
      'server_limit',
      'Current limit on requests in flight, fixed or [adaptive](router.md#limit-on-requests-in-flight).',
      one((s) => limitOf(s, viewsOf(s, views))),
    ),
    gauge(
      'server_waiting_samples',
      'Samples that wait for a free slot on any server of the `model`. All servers of a model report the same number.',
      seen('waiting'),
    ),
    counter('server_requests_total', 'Requests sent.', counted('requests')),
    counter(
      'server_errors_total',
      'Failed requests by `class`: `client` (the server refused the sample), `busy` (the server was overloaded), `corrupt` (the answer holds no valid score), `fault` (any other failure).',
      each((s) => errorsOf(calls.get(s.id))),
    ),
    counter(
      'server_retries_total',
      'Retries: requests sent after an earlier request for the same sample failed.',
      counted('retries'),
    ),
    counter(
      'server_hedges_total',
      'Hedged requests: second requests for a sample, sent while the first one was in flight.',
      counted('hedges'),
    ),
    counter(
      'server_ejections_total',
      'Ejections of the server, by the `process` whose router ejected it ([failures](router.md#failures)).',
      servers.flatMap((s) =>
        [...views].flatMap(([process, view]) => {
          const stats = view[s.id]
          const own = { ...labels.get(s.id), process } as Record<string, string>
          return stats === undefined ? [] : [{ labels: own, value: stats.ejections ?? 0 }]
        }),
      ),
    ),
    counter('server_tokens_total', 'Tokens of the scored samples.', counted('tokens')),
    gauge(
      'server_tokens_per_second',
      'Tokens that the server scores per second, as measured by the processes.',
      seen('tokensPerSecond'),
    ),
    {
      ...family(
        'histogram',
        'server_request_duration_seconds',
        'Durations of requests that returned a score.',
      ),
      values: servers.flatMap((s) =>
        histogram(labels.get(s.id) as Record<string, string>, calls.get(s.id)?.latency ?? []),
      ),
    },
    gauge(
      'server_self_test',
      'One series for each `verdict` of a [self-test](servers.md#self-test): 1 for the verdict of the last self-test, 0 for the others.',
      each((s) =>
        Object.keys(VERDICTS).map((verdict) => ({
          labels: { verdict },
          value: flag(s.verdict === verdict),
        })),
      ),
    ),
  ]
}

function workerFamilies({ workers }: Figures): Family[] {
  const of = (value: (stats: Partial<WorkerStats>) => number | undefined) =>
    workers.map((w) => ({
      labels: { worker: `w${w.id}` },
      value: value(w.stats as Partial<WorkerStats>) ?? 0,
    }))
  return [
    gauge('workers', 'Number of live workers.', single(workers.length)),
    gauge(
      'worker_samples_per_second',
      'Samples scored or failed per second.',
      of((s) => s.samplesPerSecond),
    ),
    gauge(
      'worker_in_flight_samples',
      'Samples that the worker is scoring.',
      of((s) => s.inFlight),
    ),
    gauge(
      'worker_samples_in_use',
      'Samples that the worker has claimed from the queue and that are neither scored nor failed yet.',
      of((s) => s.inUse),
    ),
    gauge(
      'worker_event_loop_p99_seconds',
      '99th percentile of the event-loop delay over the last second.',
      of((s) => (s.eventLoopP99Ms ?? 0) / 1_000),
    ),
    gauge(
      'worker_resident_memory_bytes',
      'Resident memory of the process.',
      of((s) => s.rssBytes),
    ),
  ]
}

function loopFamilies({ batches, queues }: Figures): Family[] {
  const states = new Set([...BATCH_STATES, ...batches.batches.keys()])
  return [
    gauge(
      'batches',
      'Number of batches by `status`.',
      [...states].map((status) => ({
        labels: { status },
        value: batches.batches.get(status) ?? 0,
      })),
    ),
    gauge(
      'samples_pending',
      'Accepted samples that are neither scored nor failed yet.',
      single(batches.pending),
    ),
    counter('samples_scored_total', 'Scored samples.', single(batches.scored)),
    counter('samples_failed_total', 'Failed samples.', single(batches.failed)),
    counter('groups_completed_total', 'Completed groups.', single(batches.groups)),
    gauge(
      'queue_jobs',
      "Jobs by `pool` and `state` (`queued`, or `active` once a worker has claimed the job). A job is a chunk of a batch's samples.",
      queues.map(({ pool, state, jobs }) => ({ labels: { pool, state }, value: jobs })),
    ),
  ]
}

function runFamilies({ runs }: Figures): Family[] {
  const counted = (key: keyof RunCounts) =>
    [...runs.counts].map(([run, counts]) => ({ labels: { run }, value: counts[key] }))
  const last = (value: (batch: LastBatch) => number | null) =>
    runs.lastBatches.map((batch) => ({
      labels: { run: batch.run, split: batch.split },
      value: value(batch) ?? Number.NaN,
    }))
  return [
    gauge(
      'runs_active',
      'Runs that have pending samples, or that received samples or ended a batch within the last hour.',
      single(runs.active),
    ),
    gauge(
      'run_samples_pending',
      'Accepted samples of the run that are neither scored nor failed yet.',
      counted('pending'),
    ),
    counter('run_samples_scored_total', 'Scored samples of the run.', counted('scored')),
    counter('run_samples_failed_total', 'Failed samples of the run.', counted('failed')),
    counter('run_groups_completed_total', 'Completed groups of the run.', counted('groups')),
    gauge(
      'run_step',
      'Step of the last completed batch.',
      last((batch) => batch.step),
    ),
    gauge(
      'run_reward_mean',
      'Mean score of the last completed batch.',
      last((batch) => batch.mean),
    ),
    gauge(
      'run_no_signal_ratio',
      'Share of [no-signal groups](glossary.md) (all advantages are zero) among the groups of the last completed batch.',
      last((batch) => batch.noSignal),
    ),
    gauge(
      'run_time_to_all_groups_seconds',
      'Time from the acceptance of the last completed batch until all of its groups were complete.',
      last((batch) => batch.seconds),
    ),
  ]
}

function viewsOf(server: ServerFigures, views: ReadonlyMap<string, ProcessView>) {
  return [...views.values()].flatMap((view) => view[server.id] ?? [])
}

/**
 * Returns the configured limit. Without one, it returns the sum of the processes' adaptive limits, at most the number
 * of leasable slots.
 */
function limitOf(server: ServerFigures, views: readonly WorkerServerStats[]): number {
  const most = mostInFlight(server.max_in_flight, server.max_concurrent)
  if (server.max_in_flight !== null || views.length === 0) return most
  return Math.min(most, sum(views.map((view) => view.limit ?? most)))
}

/** Errors by class. Errors outside the other classes count as faults of the server or the network. */
function errorsOf(calls: CallFigures | undefined) {
  const { errors = 0, client = 0, busy = 0, corrupt = 0 } = calls ?? {}
  const fault = Math.max(0, errors - client - busy - corrupt)
  return Object.entries({ client, busy, corrupt, fault }).map(([name, value]) => ({
    labels: { class: name },
    value,
  }))
}

function histogram(labels: Record<string, string>, counts: readonly number[]): Series[] {
  const name = 'rewardops_server_request_duration_seconds'
  const series: Series[] = []
  let seen = 0
  let next = 0
  for (const bucket of DURATION_BUCKETS) {
    for (; next <= bucket; next++) seen += counts[next] ?? 0
    const le = String(Number(((LATENCY_BOUNDS_MS[bucket] as number) / 1_000).toPrecision(6)))
    series.push({ metricName: `${name}_bucket`, labels: { ...labels, le }, value: seen })
  }
  const total = sum(counts)
  let seconds = 0
  counts.forEach((n, i) => {
    seconds += (n * (LATENCY_BOUNDS_MS[i] as number)) / Math.sqrt(LATENCY_BUCKET_RATIO) / 1_000
  })
  series.push({ metricName: `${name}_bucket`, labels: { ...labels, le: '+Inf' }, value: total })
  series.push({ metricName: `${name}_sum`, labels, value: seconds })
  series.push({ metricName: `${name}_count`, labels, value: total })
  return series
}

export function family(type: Family['type'], name: string, help: string): Family {
  return { name: `rewardops_${name}`, help, type, values: [] }
}

export function gauge(name: string, help: string, values: Series[]): Family {
  return { ...family('gauge', name, help), values }
}

export function counter(name: string, help: string, values: Series[]): Family {
  return { ...family('counter', name, help), values }
}

export function single(value: number): Series[] {
  return [{ labels: {}, value }]
}

function flag(is: boolean): number {
  return is ? 1 : 0
}

function sum(list: readonly number[]): number {
  let total = 0
  for (const n of list) total += n
  return total
}
