import type { Logger } from '../log.ts'
import type { AttemptRecord } from '../router/router-types.ts'
import { plainArray, textArray } from '../store/array-literal.ts'
import { type Client, type Database, throughOutage } from '../store/database.ts'
import type { SampleFailureReason } from '../wire/sample-reason.ts'

/** One sample's end, as it is to be written. */
export interface EndedSample {
  batchId: number
  index: number
  score: number | null
  rawScore: number | null
  reason: SampleFailureReason | null
  substituted: boolean
  extra: Record<string, unknown> | null
  attempts: number
  queueMs: number
  scoreMs: number
  serverId: number | null
  serverName: string | null
  /** Epoch milliseconds. */
  dispatchedAtMs: number
  /** Kept only where there is more to tell than the sample's own row does. */
  attemptLog: AttemptRecord[] | null
  /** Called when the result is committed, or could not be written for a reason other than an outage. */
  settled: (written: boolean) => void
}

/** A finished sample waits at most this long for others to be written with it. */
const FLUSH_MS = 40
/** Beyond this many a flush's transaction holds its locks too long for the other workers. */
const FLUSH_SAMPLES = 512
/** One at a time: a second would wait for the first's lock on the batch, and be smaller for it. */
const MAX_FLUSHES = 1
/** How long a result outlives the database: a restart takes under a second, an outage of this machine's disk longer. */
const OUTAGE_MS = 15 * 60_000

/** Writes finished samples in bulk, whatever else their chunk or group still waits for. */
export class ResultWriter {
  readonly #db: Database
  readonly #workerId: number
  readonly #log: Logger
  /** Hears of a flush that counted whole: what is stored is what was flushed. */
  readonly #onCommitted: ((samples: EndedSample[]) => void) | null
  #waiting: EndedSample[] = []
  #timer: NodeJS.Timeout | undefined
  #flushes = 0
  #idle: (() => void)[] = []

  constructor(
    db: Database,
    workerId: number,
    log: Logger,
    onCommitted: ((samples: EndedSample[]) => void) | null = null,
  ) {
    this.#onCommitted = onCommitted
    this.#db = db
    this.#workerId = workerId
    this.#log = log
  }

  /** Takes a result; `now` skips the wait for others. */
  add(sample: EndedSample, now = false): void {
    this.#waiting.push(sample)
    if (this.#waiting.length >= FLUSH_SAMPLES || now) this.#flush()
    else this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS)
  }

  /** Results not yet committed. */
  get pending(): number {
    return this.#waiting.length + this.#flushes
  }

  /** Resolves when everything taken is committed. */
  async drain(): Promise<void> {
    while (this.pending > 0) {
      this.#flush()
      await new Promise<void>((resolve) => this.#idle.push(resolve))
    }
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (this.#flushes >= MAX_FLUSHES || this.#waiting.length === 0) return
    const samples = this.#waiting.splice(0, FLUSH_SAMPLES * 2)
    this.#flushes++
    void throughOutage(() => this.#write(samples), { forMs: OUTAGE_MS })
      .then((counted) => {
        if (counted === samples.length) this.#onCommitted?.(samples)
        return true
      })
      .catch((error: Error) => {
        this.#log.error(
          { err: error.message, samples: samples.length },
          'results could not be written',
        )
        return false
      })
      .then((written) => {
        this.#flushes--
        for (const sample of samples) sample.settled(written)
        if (this.#waiting.length >= FLUSH_SAMPLES) this.#flush()
        else if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#flush(), FLUSH_MS)
        if (this.pending === 0 || this.#waiting.length > 0) {
          for (const wake of this.#idle.splice(0)) wake()
        }
      })
  }

  /** Gives how many samples counted. */
  async #write(samples: EndedSample[]): Promise<number> {
    // Samples are locked in the order given; everybody's is the same.
    samples.sort((a, b) => a.batchId - b.batchId || a.index - b.index)
    const logs = samples.filter((s) => s.attemptLog !== null && s.attemptLog.length > 0)
    const flush = {
      name: 'flush-results',
      text: 'select flush_results($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14) as n',
      values: columns(this.#workerId, samples),
    }
    if (logs.length === 0) {
      return (await this.#db.pool.query<{ n: number }>(flush)).rows[0]!.n
    }
    return this.#db.transaction(async (client) => {
      await insertAttempts(client, this.#workerId, logs)
      return (await client.query<{ n: number }>(flush)).rows[0]!.n
    })
  }
}

/** Six digits: enough for a duration, and what a `real` gives back as it was written. */
export function durationAsStored(ms: number): number {
  return Number(ms.toPrecision(6))
}

function columns(workerId: number, samples: EndedSample[]): unknown[] {
  return [
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
  ]
}

/** Only for samples still pending: repeating the transaction after a lost connection writes no attempt twice. */
async function insertAttempts(
  client: Client,
  workerId: number,
  samples: EndedSample[],
): Promise<void> {
  const rows = samples.flatMap((s) => (s.attemptLog as AttemptRecord[]).map((a) => ({ s, a })))
  await client.query({
    name: 'insert-attempts',
    text: `insert into attempt (batch_id, idx, attempt, server_id, worker_id, started_at, queue_ms, backoff_ms,
             service_ms, outcome, reason, status_code, detail)
           select t.batch_id, t.idx, t.attempt, t.server, $1, to_timestamp(t.started / 1000), t.queue, t.backoff,
             t.service, t.outcome, t.reason, t.status, t.detail
           from unnest($2::int[], $3::int[], $4::smallint[], $5::int[], $6::float8[], $7::real[], $8::real[],
             $9::real[], $10::text[], $11::text[], $12::smallint[], $13::text[])
             as t(batch_id, idx, attempt, server, started, queue, backoff, service, outcome, reason, status, detail)
           join sample on sample.batch_id = t.batch_id and sample.idx = t.idx and sample.status < 2`,
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
      rows.map(({ a }) => a.detail?.replaceAll('\u0000', '␀').slice(0, 2_000) ?? null),
    ],
  })
}
