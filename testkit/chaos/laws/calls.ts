import { DIRECT_WITHIN_MS } from '../../../server/batches/direct-scores.ts'
import type { HistoryEvent } from '../history.ts'
import { type Evidence, type FaultSpan, faultSpans, type Violation } from './law.ts'

export interface ModelCall {
  server: number
  n: number
  ids: string[]
  from: number
  /** Time when the model answered, detected that the caller had disconnected, or died. */
  until: number
  outcome: 'answered' | 'aborted' | 'lost'
}

/** Maximum delay between the caller freeing a slot and the model detecting the disconnect. */
const ABORT_SLACK_MS = 400
/** Calls of a stopped or disconnected process may exceed the limit for this long during the fault and after it. */
const HOLDER_MS = 30_000
/** Time limit for writing a finished sample. Workers flush every 40 ms; a busy machine takes much longer. */
const UNFLUSHED_MS = 1_500
/** Maximum time that an answer takes from the model to the router. */
const HEDGE_SLACK_MS = 25
/**
 * Minimum age at which a worker splits a request without an answer, ms; the maximum is twice as high. Measured ages are
 * lower, because the model records the start of a request only when it receives the request.
 */
const SPLIT_MS = 100
/**
 * A worker stopped for longer may be declared dead, 5 s after its last report. That report may be 1 s old at the stop.
 */
const MAYBE_DEAD_MS = 4_000
const OUTLIVE_MS = 10_000

/** Checks the calls at the reward models: limits hold at every moment, and no call is repeated without a cause. */
export function checkCalls(evidence: Evidence): Violation[] {
  const { events, workload, schedule } = evidence
  const slackMs = ABORT_SLACK_MS * evidence.slowness
  const calls = modelCalls(events)
  const spans = faultSpans(events)
  const violations: Violation[] = []
  for (let server = 0; server < schedule.setup.models; server++) {
    const own = calls.filter((call) => call.server === server)
    const weighted = own.map((call) => ({ call, weight: call.ids.length }))
    const message = `calls in flight to reward model ${server}`
    violations.push(...checkLimit(weighted, workload.maxInFlight, spans, message, slackMs))
  }
  for (const job of workload.jobs) {
    if (job.maxConcurrency === null) continue
    const weighted = calls.flatMap((call) => {
      const own = call.ids.filter((id) => id.startsWith(`${job.key}:`))
      // A hedged sample counts once, so its hedge is not counted.
      const weight = own.filter((id) => !calls.some((other) => isHedgeOf(call, other, id))).length
      return weight === 0 ? [] : [{ call, weight }]
    })
    const message = `samples of ${job.key} in flight (maxConcurrency)`
    violations.push(...checkLimit(weighted, job.maxConcurrency, spans, message, slackMs))
  }
  violations.push(...checkRepeats(calls, spans, evidence))
  return violations
}

/** The requests of all reward models. A request without an end lasts until its model dies. */
export function modelCalls(events: readonly HistoryEvent[]): ModelCall[] {
  const open = new Map<string, ModelCall>()
  const calls: ModelCall[] = []
  for (const event of events) {
    if (event.e === 'rm-start') {
      const { server, n, ids, at } = event
      const call: ModelCall = { server, n, ids, from: at, until: at, outcome: 'lost' }
      open.set(`${server}/${n}`, call)
      calls.push(call)
    } else if (event.e === 'rm-end') {
      const call = open.get(`${event.server}/${event.n}`)
      if (call === undefined) continue
      call.until = event.at
      call.outcome = event.outcome
      open.delete(`${event.server}/${event.n}`)
    } else if (event.e === 'exit' && event.who.startsWith('rm-')) {
      const server = Number(event.who.slice(3))
      for (const [key, call] of open) {
        if (call.server !== server) continue
        call.until = event.at
        open.delete(key)
      }
    }
  }
  for (const call of open.values()) call.until = Number.POSITIVE_INFINITY
  return calls
}

interface WeightedCall {
  call: ModelCall
  weight: number
}

function checkLimit(
  calls: WeightedCall[],
  limit: number,
  spans: FaultSpan[],
  what: string,
  slackMs: number,
): Violation[] {
  const ends = ({ call }: WeightedCall) =>
    call.outcome === 'aborted' ? Math.max(call.from, call.until - slackMs) : call.until
  const changes = calls
    .flatMap((one) => [
      { at: one.call.from, by: one.weight },
      { at: ends(one), by: -one.weight },
    ])
    .sort((a, b) => a.at - b.at || a.by - b.by)
  const inFlightAt = (at: number) =>
    calls.reduce((sum, one) => sum + (one.call.from <= at && ends(one) > at ? one.weight : 0), 0)
  const allowances = spans.filter(isHolderFault).map((span) => ({
    from: span.from - slackMs,
    until: Math.min(span.until, span.from + HOLDER_MS) + HOLDER_MS,
    inFlight: Math.max(inFlightAt(span.from), inFlightAt(span.from - 50)),
  }))
  let inFlight = 0
  let worst = { over: 0, at: 0, inFlight: 0, allowed: limit }
  for (const { at, by } of changes) {
    inFlight += by
    if (inFlight <= limit) continue
    const extra = allowances
      .filter((one) => at >= one.from && at <= one.until)
      .reduce((sum, one) => sum + one.inFlight, 0)
    const over = inFlight - limit - extra
    if (over > worst.over) worst = { over, at, inFlight, allowed: limit + extra }
  }
  if (worst.over === 0) return []
  const then = calls.filter((one) => one.call.from <= worst.at && ends(one) > worst.at)
  return [
    {
      law: 'limit',
      message: `${worst.inFlight} ${what}, ${worst.allowed} allowed, at ${new Date(worst.at).toISOString()}`,
      evidence: then.map(({ call }) => startOf(call)),
    },
  ]
}

/** Whether the fault stops, ends or disconnects a process, whose calls may then continue at the model. */
function isHolderFault({ kind }: FaultSpan): boolean {
  return /^(server|worker|all)-(kill|stop|term)$|^net-rm$|^rm-stop$/.test(kind)
}

/**
 * Checks that a text is sent again only after a failed call, as a hedge, in a part of a split call, or if its result
 * may be lost.
 */
function checkRepeats(calls: ModelCall[], spans: FaultSpan[], evidence: Evidence): Violation[] {
  const byText = new Map<string, ModelCall[]>()
  for (const call of calls) {
    for (const id of call.ids) {
      const list = byText.get(id) ?? []
      list.push(call)
      byText.set(id, list)
    }
  }
  const tries = triesOfSingles(evidence.events)
  const unexplained: { id: string; first: ModelCall; second: ModelCall }[] = []
  for (const [id, list] of byText) {
    const mayRepeat = (tries.get(id) ?? 1) - 1
    let repeats = 0
    for (let k = 1; k < list.length; k++) {
      const [first, second] = [list[k - 1] as ModelCall, list[k] as ModelCall]
      if (isExplained(first, second, spans, evidence)) continue
      if (isStoredAfterDirectScore(id, first, second, evidence.events)) continue
      repeats++
      if (repeats > mayRepeat) unexplained.push({ id, first, second })
    }
  }
  if (unexplained.length === 0) return []
  const [{ id, first, second }] = unexplained as [(typeof unexplained)[number]]
  const gapMs = second.from - first.until
  return [
    {
      law: 'calls',
      message: `${unexplained.length} texts were scored again without a cause, first ${id}: answered, and sent again ${gapMs} ms later`,
      evidence: unexplained.flatMap((one) => [
        startOf(one.first),
        endOf(one.first),
        startOf(one.second),
      ]),
    },
  ]
}

function isExplained(
  first: ModelCall,
  second: ModelCall,
  spans: FaultSpan[],
  { events, schedule, slowness }: Evidence,
): boolean {
  const unflushedMs = UNFLUSHED_MS * slowness
  if (first.outcome !== 'answered') return true
  if (isHedge(first, second)) return true
  if (isSplit(first, second, events, slowness)) return true
  return spans.some((span) => {
    // The fault may have lost the answer in transit.
    if (/^net-rm$|^rm-/.test(span.kind))
      return first.from < span.until + unflushedMs && first.until > span.from - unflushedMs
    const losesResults =
      /^(server|worker|all)-(kill|stop|term)$/.test(span.kind) ||
      // Only one of several processes is disconnected from the database; the others requeue its samples.
      (span.kind === 'net-postgres' && schedule.setup.servers + schedule.setup.extraWorkers > 1)
    if (!losesResults) return false
    const isLost = first.from < lostUntil(span, slowness)
    return isLost && span.from < flushedBy(first, spans, events, unflushedMs)
  })
}

/** Latest start of a call whose result the fault may lose, epoch ms. */
function lostUntil({ kind, from, until }: FaultSpan, slowness: number): number {
  // After 5 s without a report, a worker is declared dead. It learns this with its next report. Until then it keeps
  // scoring, and its results are refused.
  if (kind === 'worker-stop' && until - from > MAYBE_DEAD_MS) return until + UNFLUSHED_MS * slowness
  // A killed worker starts no more calls. The model receives its last ones shortly after the kill.
  if (kind === 'worker-kill') return from + ABORT_SLACK_MS * slowness
  // Workers may outlive their server by 10 s. Their results are lost if they cannot be written.
  const outlivesMs = /^(server|all)-/.test(kind) ? OUTLIVE_MS : 0
  return from + (outlivesMs + UNFLUSHED_MS) * slowness
}

/**
 * Whether the first call may be the direct score of a single sample that took too long, so that the sample was queued.
 */
function isStoredAfterDirectScore(
  id: string,
  first: ModelCall,
  second: ModelCall,
  events: readonly HistoryEvent[],
): boolean {
  const key = id.replace(':', '/')
  const calls = events.filter(
    (event) => event.e === 'call' && event.op === 'samples.score' && event.key === key,
  )
  const call = calls.findLast(({ at }) => at <= first.from)
  const isRepeated = calls.some(({ at }) => at > first.from && at <= second.from)
  return call !== undefined && !isRepeated && first.until - call.at >= DIRECT_WITHIN_MS
}

/**
 * Whether the second call may be a hedge: it overlaps the first at another server, or starts while the answer
 * arrives.
 */
function isHedge(first: ModelCall, second: ModelCall): boolean {
  return second.server !== first.server && second.from <= first.until + HEDGE_SLACK_MS
}

/**
 * Whether the second call may be part of the first, which the worker split because its answer was late. The answer may
 * arrive while the parts are sent, or later if the harness delayed it. On a slow machine the model receives the first
 * call later, and the answer takes longer.
 */
function isSplit(
  first: ModelCall,
  second: ModelCall,
  events: readonly HistoryEvent[],
  slowness: number,
): boolean {
  const isPart =
    second.ids.length < first.ids.length && second.from - first.from >= SPLIT_MS / 2 / slowness
  const lateMs = second.from - first.until
  if (!isPart || lateMs > 2 * SPLIT_MS) return false
  return lateMs <= HEDGE_SLACK_MS * slowness || isDelayed(first, second, events)
}

/** Whether the harness, which forwards answers, was blocked between the two calls. */
function isDelayed(first: ModelCall, second: ModelCall, events: readonly HistoryEvent[]): boolean {
  return events.some(
    (event) =>
      event.e === 'delayed' && event.at >= first.from && event.at - event.forMs <= second.from,
  )
}

function isHedgeOf(call: ModelCall, other: ModelCall, id: string): boolean {
  return other.ids.includes(id) && other.from < call.from && isHedge(other, call)
}

/**
 * Time by which the result of a call is certainly stored, epoch ms: shortly after the call ends, or shortly after an
 * outage that is in progress then.
 */
function flushedBy(
  call: ModelCall,
  spans: FaultSpan[],
  events: readonly HistoryEvent[],
  unflushedMs: number,
): number {
  let by = call.until + unflushedMs
  for (const { kind, from, until } of spans) {
    const isOutage =
      /^(postgres|backend|net-postgres|read-only|disk-full|failover|all|server)/.test(kind)
    if (isOutage && from < by && until + unflushedMs > by) by = until + unflushedMs
  }
  // PgBouncer refuses logins for 15 s after Postgres has recovered. Meanwhile the service reports that it is not ready,
  // and stores no results.
  for (const event of events) {
    if (event.e === 'ready' && event.status !== 200 && event.at < by)
      by = Math.max(by, event.at + unflushedMs)
  }
  return by
}

/**
 * Counts, for each sample that was sent in a call of its own, the calls up to and including the first answered one. Each
 * of these calls may have been scored.
 */
function triesOfSingles(events: readonly HistoryEvent[]): Map<string, number> {
  const tries = new Map<string, number>()
  const isAnswered = new Set<string>()
  for (const event of events) {
    if (event.e === 'answer' && isSingleCall(event.op) && event.status === 200)
      isAnswered.add(event.key)
    if (event.e !== 'call' || !isSingleCall(event.op) || isAnswered.has(event.key)) continue
    const id = event.key.replace('/', ':')
    tries.set(id, (tries.get(id) ?? 0) + 1)
  }
  return tries
}

function isSingleCall(op: string): boolean {
  return op === 'samples.score' || op === '/predict'
}

function startOf({ server, n, ids, from }: ModelCall): HistoryEvent {
  return { e: 'rm-start', at: from, server, n, ids }
}

function endOf({ server, n, until, outcome }: ModelCall): HistoryEvent {
  return {
    e: 'rm-end',
    at: until,
    server,
    n,
    outcome: outcome === 'answered' ? outcome : 'aborted',
  }
}
