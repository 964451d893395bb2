import type { DirectEnd } from '../../contract/direct-score.ts'
import { plainArray, textArray } from '../array-literal.ts'
import type { Statement } from '../database.ts'
import { storableText } from '../stored-texts.ts'

const MAX_DETAIL_CHARS = 2_000

export interface FlushedSample extends DirectEnd {
  batchId: number
  index: number
}

/** Rounds to six significant digits, which a `real` keeps unchanged. */
export function durationAsStored(ms: number): number {
  return Number(ms.toPrecision(6))
}

/**
 * The statement that writes a worker's results to the samples that are still pending; its column `n` is the number of
 * samples written. Sorts the samples, so that all flushes lock them in the same order.
 */
export function flushStatement(workerId: number, samples: FlushedSample[]): Statement {
  samples.sort((a, b) => a.batchId - b.batchId || a.index - b.index)
  return {
    name: 'flush-results',
    text: 'select flush_results($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17) as n',
    values: [
      workerId,
      plainArray(samples.map((s) => s.batchId)),
      plainArray(samples.map((s) => s.index)),
      plainArray(samples.map((s) => (s.reason === null ? 2 : 3))),
      plainArray(samples.map((s) => Math.min(s.attempts, 32_767))),
      plainArray(samples.map((s) => s.score)),
      plainArray(samples.map((s) => s.rawScore)),
      textArray(samples.map((s) => s.reason)),
      plainArray(samples.map((s) => s.substituted)),
      textArray(samples.map((s) => (s.extra === null ? null : JSON.stringify(s.extra)))),
      plainArray(samples.map((s) => durationAsStored(s.queueMs))),
      plainArray(samples.map((s) => durationAsStored(s.scoreMs))),
      plainArray(samples.map((s) => s.serverId)),
      plainArray(samples.map((s) => s.dispatchedAtMs)),
      textArray(samples.map((s) => s.verdict)),
      textArray(samples.map((s) => s.extracted)),
      textArray(samples.map((s) => (s.rewards === null ? null : JSON.stringify(s.rewards)))),
    ],
  }
}

/**
 * Like {@link flushStatement}, for scored samples whose group still needs post-processing: the samples stay pending,
 * but their score is stored.
 */
export function stageStatement(workerId: number, samples: FlushedSample[]): Statement {
  return {
    ...flushStatement(workerId, samples),
    name: 'stage-results',
    text: 'select stage_results($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17) as n',
  }
}

/**
 * The statement that writes the samples' attempts; null if there are none. It runs before the flush of the same
 * transaction and covers only samples that are still in `state`, so repeating it after a lost connection writes no
 * attempt twice.
 */
export function attemptsStatement(
  workerId: number,
  samples: readonly Pick<FlushedSample, 'batchId' | 'index' | 'attemptLog'>[],
  state: 'pending' | 'staged' = 'pending',
): Statement | null {
  const rows = samples.flatMap((s) => (s.attemptLog ?? []).map((a) => ({ s, a })))
  if (rows.length === 0) return null
  return {
    name: `insert-attempts-${state}`,
    text: `insert into attempt (batch_id, idx, attempt, server_id, worker_id, started_at, queue_ms, backoff_ms,
             service_ms, outcome, reason, status_code, detail, hedge_of, call_no)
           select t.batch_id, t.idx, t.attempt, t.server, $1, to_timestamp(t.started / 1000), t.queue, t.backoff,
             t.service, t.outcome, t.reason, t.status, t.detail, t.hedge_of, t.call_no
           from unnest($2::int[], $3::int[], $4::smallint[], $5::int[], $6::float8[], $7::real[], $8::real[],
             $9::real[], $10::text[], $11::text[], $12::smallint[], $13::text[], $14::int[], $15::smallint[])
             as t(batch_id, idx, attempt, server, started, queue, backoff, service, outcome, reason, status, detail,
                  hedge_of, call_no)
           join sample on sample.batch_id = t.batch_id and sample.idx = t.idx and sample.status = ${state === 'pending' ? 0 : 1}`,
    values: [
      workerId,
      rows.map(({ s }) => s.batchId),
      rows.map(({ s }) => s.index),
      rows.map(({ a }) => a.attempt),
      rows.map(({ a }) => a.serverId),
      rows.map(({ a }) => a.startedAtMs),
      rows.map(({ a }) => a.queueMs),
      rows.map(({ a }) => a.backoffMs),
      rows.map(({ a }) => a.serviceMs),
      rows.map(({ a }) => a.outcome),
      rows.map(({ a }) => a.reason),
      rows.map(({ a }) => a.status),
      rows.map(({ a }) => (a.detail === null ? null : storableText(a.detail, MAX_DETAIL_CHARS))),
      rows.map(({ a }) => a.hedgeOf ?? null),
      rows.map(({ a }) => a.callNo ?? null),
    ],
  }
}
