import {
  type Attributes,
  createTraceState,
  type HrTime,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
} from '@opentelemetry/api'
import type { Resource } from '@opentelemetry/resources'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'
import {
  ATTR_ERROR_TYPE,
  ATTR_HTTP_RESPONSE_STATUS_CODE,
  ATTR_SERVER_ADDRESS,
  ATTR_SERVER_PORT,
} from '@opentelemetry/semantic-conventions'
import {
  ATTR_GEN_AI_EVALUATION_NAME,
  ATTR_GEN_AI_EVALUATION_SCORE_LABEL,
  ATTR_GEN_AI_EVALUATION_SCORE_VALUE,
  ATTR_GEN_AI_OPERATION_NAME,
  ATTR_GEN_AI_PROVIDER_NAME,
  ATTR_GEN_AI_REQUEST_MODEL,
  EVENT_GEN_AI_EVALUATION_RESULT,
} from '@opentelemetry/semantic-conventions/incubating'
import type { TracedAttempt, TracedBatch, TracedGroup } from '../store/sql/traces.ts'
import { spanIdOf, spanPaths, type TraceContext } from '../trace-context.ts'

/**
 * Builds the spans of batches from stored rows. Span ids are derived from the trace, so an export can be repeated.
 * Names and attributes are those of the GenAI semantic conventions and of the proposed `rl.*` conventions
 * (open-telemetry/semantic-conventions-genai#88, alibaba/loongsuite-semantic-conventions-genai#27); the `rewardops.*`
 * attributes are in neither of them.
 */
export class TraceSpans {
  readonly #resource: Resource
  readonly #scope: { name: string; version: string }

  constructor(resource: Resource, version: string) {
    this.#resource = resource
    this.#scope = { name: 'rewardops', version }
  }

  ofBatch(batch: TracedBatch): ReadableSpan {
    const { trace } = batch
    return this.#span(trace, {
      name: 'rl.reward.batch',
      kind: SpanKind.SERVER,
      id: spanIdOf(trace, spanPaths.batch(batch.id)),
      parentId: trace.parentId,
      startMs: batch.startedAtMs,
      endMs: batch.endedAtMs,
      error: batch.status === 'completed' ? null : batch.status,
      attributes: {
        ...commonOf(batch),
        'rewardops.batch.status': batch.status,
        'rewardops.reward.name': batch.rewardName,
        'rewardops.samples': batch.samples,
        'rewardops.samples.scored': batch.scored,
        'rewardops.samples.failed': batch.failed,
        'rewardops.groups': batch.groups,
        'rewardops.reward.mean': batch.mean ?? undefined,
      },
    })
  }

  ofGroup(batch: TracedBatch, group: TracedGroup): ReadableSpan {
    const { trace } = batch
    return this.#span(trace, {
      name: 'rl.reward.group',
      kind: SpanKind.INTERNAL,
      id: spanIdOf(trace, spanPaths.group(batch.id, group.no)),
      parentId: spanIdOf(trace, spanPaths.batch(batch.id)),
      startMs: batch.startedAtMs,
      endMs: group.completedAtMs ?? batch.endedAtMs,
      error: group.completedAtMs === null ? batch.status : null,
      attributes: {
        ...commonOf(batch),
        'rewardops.group.uid': group.uid,
        'rewardops.group.signal': group.signal ?? undefined,
        'rewardops.samples': group.received,
        'rewardops.samples.failed': group.failed,
        'rewardops.reward.mean': group.mean ?? undefined,
      },
    })
  }

  /** Returns the span of an attempt and, if the attempt called a reward-model server, the span of that request. */
  ofAttempt(batch: TracedBatch, attempt: TracedAttempt): ReadableSpan[] {
    const { trace } = batch
    const { idx, call, score, reason } = attempt
    const id = spanIdOf(trace, spanPaths.attempt(batch.id, idx, call))
    const endMs = attempt.startedAtMs + attempt.serviceMs
    const errorType = NO_ERROR.has(attempt.outcome) ? null : (reason ?? attempt.outcome)
    const own = this.#span(trace, {
      name: 'rl.reward.attempt',
      kind: SpanKind.INTERNAL,
      id,
      parentId: spanIdOf(trace, spanPaths.group(batch.id, attempt.groupNo)),
      startMs: attempt.startedAtMs - attempt.waitedMs,
      endMs,
      error: errorType,
      message: attempt.detail,
      attributes: {
        ...commonOf(batch),
        'rewardops.sample.id': `b${batch.id}-${idx}`,
        'rewardops.attempt': attempt.attempt,
        'rewardops.attempt.outcome': attempt.outcome,
        'rewardops.attempt.is_hedge': attempt.isHedge,
        'rewardops.worker': attempt.workerId === null ? undefined : `w${attempt.workerId}`,
        'rl.reward.score': score ?? undefined,
        'rl.reward.verify.result': attempt.verdict ?? undefined,
      },
    })
    if (score !== null) {
      own.events.push({
        name: EVENT_GEN_AI_EVALUATION_RESULT,
        time: timeOf(endMs),
        attributes: defined({
          [ATTR_GEN_AI_EVALUATION_NAME]: batch.rewardName,
          [ATTR_GEN_AI_EVALUATION_SCORE_VALUE]: score,
          [ATTR_GEN_AI_EVALUATION_SCORE_LABEL]: attempt.verdict ?? undefined,
        }),
      })
    }
    if (attempt.serverName === null) return [own]
    const operation = attempt.kind === 'generative' ? 'chat' : 'score'
    const url = URL.parse(attempt.serverUrl ?? '')
    const port = url?.port || (url?.protocol === 'https:' ? '443' : '80')
    const request = this.#span(trace, {
      name: `${operation} ${attempt.model}`,
      kind: SpanKind.CLIENT,
      id: spanIdOf(trace, spanPaths.call(batch.id, idx, call)),
      parentId: id,
      startMs: attempt.startedAtMs,
      endMs,
      error: errorType,
      message: attempt.detail,
      attributes: {
        [ATTR_GEN_AI_OPERATION_NAME]: operation,
        [ATTR_GEN_AI_PROVIDER_NAME]: attempt.engine ?? undefined,
        [ATTR_GEN_AI_REQUEST_MODEL]: attempt.model ?? undefined,
        [ATTR_SERVER_ADDRESS]: url?.hostname,
        [ATTR_SERVER_PORT]: url === null ? undefined : Number(port),
        [ATTR_HTTP_RESPONSE_STATUS_CODE]: attempt.status ?? undefined,
        'rewardops.server': attempt.serverName,
      },
    })
    return [own, request]
  }

  #span(
    { traceId, state }: TraceContext,
    of: {
      name: string
      kind: SpanKind
      id: string
      parentId: string | null
      startMs: number
      endMs: number
      error: string | null
      message?: string | null
      attributes: Attributes
    },
  ): ReadableSpan {
    const context = (spanId: string): SpanContext => ({
      traceId,
      spanId,
      traceFlags: TraceFlags.SAMPLED,
      ...(state === null ? {} : { traceState: createTraceState(state) }),
    })
    const own = context(of.id)
    // The two times may come from different clocks, so the end can be up to a millisecond before the start.
    const endMs = Math.max(of.startMs, of.endMs)
    const { error, message } = of
    return {
      name: of.name,
      kind: of.kind,
      spanContext: () => own,
      ...(of.parentId === null ? {} : { parentSpanContext: context(of.parentId) }),
      startTime: timeOf(of.startMs),
      endTime: timeOf(endMs),
      duration: timeOf(endMs - of.startMs),
      status:
        error === null
          ? { code: SpanStatusCode.UNSET }
          : { code: SpanStatusCode.ERROR, message: message ?? error },
      attributes: defined({ ...of.attributes, [ATTR_ERROR_TYPE]: error ?? undefined }),
      links: [],
      events: [],
      ended: true,
      resource: this.#resource,
      instrumentationScope: this.#scope,
      droppedAttributesCount: 0,
      droppedEventsCount: 0,
      droppedLinksCount: 0,
    }
  }
}

/** Outcomes of attempts that did not fail. The router abandoned the `superseded` and `recalled` attempts. */
const NO_ERROR: ReadonlySet<string> = new Set(['ok', 'superseded', 'recalled'])

function commonOf({ id, run, step, split }: TracedBatch): Attributes {
  return {
    'rl.run.id': run,
    'rewardops.step': step,
    'rewardops.split': split,
    'rewardops.batch.id': `b${id}`,
  }
}

function defined(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))
}

function timeOf(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000)
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)]
}
