import { AsyncLocalStorage } from 'node:async_hooks'
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** The place of a batch in a distributed trace, as W3C Trace Context defines it. Stored with the batch. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  traceId: string
  /**
   * The span of the trainer that submitted the batch, 16 hexadecimal digits, or null if the batch is the trace's root.
   */
  parentId: string | null
  /** Whether spans are recorded. A context that is not sampled is passed on, so that no server begins its own trace. */
  isSampled: boolean
  /** The `tracestate` header, passed on unchanged, or null if it was absent or too long. */
  state: string | null
}

/** The trace of the current request or scoring. Empty while tracing is off. */
export const activeTrace = new AsyncLocalStorage<{ trace: TraceContext; spanId: string | null }>()

export function traceFields(): { trace_id?: string; span_id?: string } {
  const active = activeTrace.getStore()
  if (active === undefined) return {}
  const { trace, spanId } = active
  return { trace_id: trace.traceId, ...(spanId === null ? {} : { span_id: spanId }) }
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/
/** W3C Trace Context requires that at least 512 characters are passed on. */
const MAX_STATE_CHARS = 512

export function traceOfHeaders(headers: IncomingHttpHeaders): TraceContext | null {
  const { traceparent, tracestate } = headers
  if (typeof traceparent !== 'string') return null
  const [, traceId, parentId, flags] = TRACEPARENT.exec(traceparent.trim()) ?? []
  if (traceId === undefined || parentId === undefined || flags === undefined) return null
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return null
  const state = Array.isArray(tracestate) ? tracestate.join(',') : tracestate
  return {
    traceId,
    parentId,
    isSampled: (Number.parseInt(flags, 16) & 1) === 1,
    state: state && state.length <= MAX_STATE_CHARS ? state : null,
  }
}

/**
 * The id of a span, derived from the trace and the span's path. The worker that sends the id to a reward-model server
 * and the process that exports the span therefore agree on the id.
 */
export function spanIdOf({ traceId }: TraceContext, path: string): string {
  return hash('sha256', `${traceId}/${path}`, 'hex').slice(0, 16)
}

export const spanPaths = {
  batch: (batchId: number) => `b${batchId}`,
  group: (batchId: number, no: number) => `b${batchId}/g${no}`,
  attempt: (batchId: number, idx: number, call: number | string) => `b${batchId}/s${idx}/${call}`,
  call: (batchId: number, idx: number, call: number | string) => `b${batchId}/s${idx}/${call}/call`,
}

export function traceHeaders(trace: TraceContext, spanId: string): Record<string, string> {
  return {
    traceparent: `00-${trace.traceId}-${spanId}-${trace.isSampled ? '01' : '00'}`,
    ...(trace.state === null ? {} : { tracestate: trace.state }),
  }
}

/** The calls of a traced sample, numbered from 1 in the order in which they begin. */
export class SampleTrace {
  readonly trace: TraceContext
  readonly #batchId: number
  /** Null if the sample is scored before it is stored. Its calls then belong to the batch's span. */
  readonly #idx: number | null
  #calls: number

  constructor(trace: TraceContext, batchId: number, idx: number | null, calls = 0) {
    this.trace = trace
    this.#batchId = batchId
    this.#idx = idx
    this.#calls = calls
  }

  nextCall(): number {
    return ++this.#calls
  }

  /** The span id for log lines about scoring the sample: the id of the batch's span. */
  get spanId(): string {
    return spanIdOf(this.trace, spanPaths.batch(this.#batchId))
  }

  /** The headers of a call. A context that is not sampled is passed on unchanged. */
  headersOf(call: number): Record<string, string> {
    const { trace } = this
    if (!trace.isSampled) return traceHeaders(trace, trace.parentId ?? this.spanId)
    if (this.#idx === null) return traceHeaders(trace, this.spanId)
    return traceHeaders(trace, spanIdOf(trace, spanPaths.call(this.#batchId, this.#idx, call)))
  }
}
