import { initTRPC, TRPCError } from '@trpc/server'
import { z } from 'zod'
import { whileKeyHolds } from '../admin/key-end.ts'
import { describeIssues } from '../contract/describe-issues.ts'
import { ERROR_REASONS, type ErrorData, type ErrorReason } from '../contract/error-reasons.ts'
import { isRewardOpsError, RewardOpsError, shuttingDown } from '../errors.ts'
import { isOutage, outageRefusal } from '../store/database.ts'
import { PoolBusyError, PoolClosedError } from '../store/session.ts'
import { audit } from './audit.ts'
import { checkRole, rulesOf } from './call-rules.ts'
import type { Modules, RequestContext } from './context.ts'
import type { ProcedureMeta } from './procedure-meta.ts'
import { failuresFor, quotesServers } from './upstream-text.ts'

const CODE_OF_STATUS = {
  400: 'BAD_REQUEST',
  401: 'UNAUTHORIZED',
  403: 'FORBIDDEN',
  404: 'NOT_FOUND',
  405: 'METHOD_NOT_SUPPORTED',
  409: 'CONFLICT',
  413: 'PAYLOAD_TOO_LARGE',
  415: 'UNSUPPORTED_MEDIA_TYPE',
  422: 'UNPROCESSABLE_CONTENT',
  429: 'TOO_MANY_REQUESTS',
  500: 'INTERNAL_SERVER_ERROR',
  502: 'BAD_GATEWAY',
  503: 'SERVICE_UNAVAILABLE',
  504: 'GATEWAY_TIMEOUT',
} as const

const REASON_OF_CODE: Partial<Record<string, ErrorReason>> = {
  PARSE_ERROR: 'malformed_json',
  BAD_REQUEST: 'invalid_input',
  NOT_FOUND: 'not_found',
  METHOD_NOT_SUPPORTED: 'method_not_allowed',
  UNSUPPORTED_MEDIA_TYPE: 'unsupported_encoding',
  PAYLOAD_TOO_LARGE: 'body_too_large',
  UNAUTHORIZED: 'unauthorized',
}

/**
 * Translates an error of the database, for every procedure and route. An outage becomes `database_unavailable`; the
 * readiness check gets the original error, because it reads the error's code. A query over its time limit or without a
 * free connection becomes `query_timeout`, and a query after the pools were closed becomes `shutting_down`. Any other
 * error is returned unchanged.
 */
export function translateError(error: unknown, readiness: Modules['readiness']): unknown {
  if (isRewardOpsError(error)) return error
  if (isOutage(error)) {
    readiness.suspect(error)
    return outageRefusal(error)
  }
  if (error instanceof PoolClosedError) return shuttingDown(error)
  if (error instanceof PoolBusyError) {
    return new RewardOpsError(
      'query_timeout',
      'Slow queries occupy all database connections for page queries.',
      {
        hint: 'Try again in a few seconds.',
        cause: error,
      },
    )
  }
  if ((error as { code?: string } | null)?.code === '57014') {
    return new RewardOpsError('query_timeout', 'The query exceeded its time limit.', {
      cause: error,
    })
  }
  return error
}

/** Describes any thrown value to the caller. Internal messages are not passed on. */
export function describeError(
  error: unknown,
  requestId: string,
  path: string | null,
): { message: string; data: ErrorData } {
  let cause = error
  if (error instanceof TRPCError && error.cause) cause = error.cause
  let reason: ErrorReason = 'internal'
  let message = 'Internal error.'
  let hint: string | undefined
  let retryAfterMs: number | undefined
  if (isRewardOpsError(cause)) {
    ;({ reason, message, hint, retryAfterMs } = cause)
  } else if (cause instanceof z.ZodError) {
    reason = 'invalid_input'
    message = describeIssues(cause)
  } else if (error instanceof TRPCError && cause instanceof SyntaxError) {
    reason = 'malformed_json'
    message = `The input is not valid JSON: ${cause.message}.`
  } else if (error instanceof TRPCError && REASON_OF_CODE[error.code]) {
    reason = REASON_OF_CODE[error.code] as ErrorReason
    message = reason === 'malformed_json' ? 'The body is not valid JSON.' : error.message
  }
  const row = ERROR_REASONS[reason]
  return {
    message,
    data: {
      code: CODE_OF_STATUS[row.httpStatus],
      httpStatus: row.httpStatus,
      reason,
      hint: hint ?? row.hint,
      requestId,
      path,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  }
}

/** Returns a refusal as TRPCError, so that tRPC sets the HTTP status. */
export function toTrpcError(error: unknown): TRPCError {
  if (isRewardOpsError(error)) {
    return new TRPCError({
      code: CODE_OF_STATUS[ERROR_REASONS[error.reason].httpStatus],
      message: error.message,
      cause: error,
    })
  }
  return error instanceof TRPCError
    ? error
    : new TRPCError({ code: 'INTERNAL_SERVER_ERROR', message: 'internal', cause: error })
}

const t = initTRPC
  .context<RequestContext>()
  .meta<ProcedureMeta>()
  .create({
    sse: {
      maxDurationMs: 30 * 60_000,
      ping: { enabled: true, intervalMs: 3_000 },
      client: { reconnectAfterInactivityMs: 8_000 },
    },
    errorFormatter({ shape, error, ctx, path }) {
      const described = describeError(error, ctx?.requestId ?? 'unknown', path ?? null)
      return { ...shape, message: described.message, data: described.data }
    },
  })

/**
 * Gives refusals their HTTP status: a RewardOpsError becomes the TRPCError of its reason. Errors of the database are
 * translated first. tRPC's own errors, such as for invalid input, are passed on unchanged.
 */
const refusals = t.middleware(async ({ ctx, next }) => {
  const result = await next()
  if (result.ok) return result
  const { code, cause } = result.error
  const translated = code === 'INTERNAL_SERVER_ERROR' ? translateError(cause, ctx.readiness) : cause
  if (isRewardOpsError(translated)) throw toTrpcError(translated)
  return result
})

const signedIn = t.middleware(async ({ ctx, next, path, type, meta, getRawInput }) => {
  const { actor } = ctx
  if (actor === null) {
    throw toTrpcError(new RewardOpsError('unauthorized', 'A valid API key is required.'))
  }
  const rules = rulesOf(type, meta)
  try {
    checkRole(actor, rules.role, path)
    if (actor.scope !== null) await ctx.scopes.check(actor, path, rules, await getRawInput())
  } catch (error) {
    throw toTrpcError(translateError(error, ctx.readiness))
  }
  return next({ ctx: { actor } })
})

/** Removes the error texts of servers from the output, except for admins. */
const readable = t.middleware(async ({ ctx, next, path }) => {
  const result = await next()
  if (!result.ok || !quotesServers(path)) return result
  return { ...result, data: failuresFor(ctx.actor, result.data) }
})

const recorded = t.middleware(async ({ ctx, next, path, type, meta, getRawInput }) => {
  if (type !== 'mutation' || ctx.actor === null || meta?.audit === null) return next()
  const call = { modules: ctx, actor: ctx.actor, path, audited: meta?.audit, input: getRawInput }
  return audit(call, next)
})

/** Ends a procedure when the caller's key becomes invalid: `until` aborts, and the caller gets the key's error. */
const untilKeyEnds = t.middleware(({ ctx, next, signal }) =>
  whileKeyHolds(ctx.keyEnded, signal, (until) => next({ ctx: { until } })),
)

export const router = t.router
const anyProcedure = t.procedure.use(refusals)
export const openProcedure = anyProcedure.meta({ isOpen: true })
export const procedure = anyProcedure.use(signedIn).use(readable).use(recorded)
/**
 * A procedure for calls that may wait for minutes. `ctx.until` aborts when the caller's key becomes invalid or the
 * caller disconnects. Use it only for work that may be abandoned at any time.
 */
export const lastingProcedure = procedure.use(untilKeyEnds)
export const nothing = z.strictObject({}).optional()
export const createCallerFactory = t.createCallerFactory
