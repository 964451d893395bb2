import { readFileSync } from 'node:fs'
import { ERROR_REASONS, type ErrorReason } from '../../../server/contract/error-reasons.ts'
import type { Call } from './calls.ts'
import type { Answer } from './send.ts'

export interface Verdict {
  /** Surface, method, status and reason. Answers of one kind are counted together. */
  kind: string
  fault: string | null
}

/** Reasons that any call may return, as docs/api.md states. */
const GENERAL: ReadonlySet<string> = new Set([
  ...['invalid_input', 'malformed_json', 'unauthorized', 'forbidden_role'],
  ...['integer_out_of_range', 'malformed_request', 'too_many_wrong_keys', 'forbidden_scope'],
  ...['database_unavailable', 'query_timeout', 'shutting_down', 'not_found'],
  ...['method_not_allowed', 'unsupported_encoding', 'bad_encoding', 'body_too_large'],
  ...['forbidden_host', 'forbidden_origin', 'forbidden_proxy', 'forbidden_user'],
])

/** Reasons of refusals by procedure, as the OpenAPI document lists them. */
const DOCUMENTED = documentedReasons()

/** Surfaces whose answers may name folders of the service, such as the folder of reward functions. */
const FOLDERS: ReadonlySet<string> = new Set(['about.get', 'rewards.list', 'batched calls'])

/** Stacks and source files, which no answer may show. */
const STACK = /\n\s+at .+:\d+:\d+|node_modules[\\/]|\.tsx?:\d+:\d+/

/**
 * Judges an answer. Faults are: no answer, status 500 or another undocumented 5xx, a refusal with an undocumented
 * reason, an error without a reason, and an answer that shows a stack or one of `secrets`.
 */
export function judge(call: Call, answer: Answer, secrets: readonly string[]): Verdict {
  const reason = reasonOf(answer.text)
  const kind = [call.surface, call.method, answer.status ?? answer.end, reason]
    .filter((part) => part !== null)
    .join(' ')
  return { kind, fault: faultOf(call, answer, reason, secrets) }
}

function faultOf(
  { surface, method, raw, path }: Call,
  { status, text, end }: Answer,
  reason: string | null,
  secrets: readonly string[],
): string | null {
  const shown = FOLDERS.has(surface) ? undefined : secrets.find((secret) => text.includes(secret))
  if (shown !== undefined) return `the answer shows ${shown}`
  if (STACK.test(text)) return 'the answer shows a stack or a source file'
  if (end === 'late') return 'there was no answer in time'
  if (end === 'cut' && raw === undefined) return 'the connection broke without an answer'
  if (status === null || status < 400) return null
  if (method === 'HEAD') return status === 500 ? 'a status of 500' : null
  if (status >= 500) {
    const documented = reason !== null && ERROR_REASONS[reason as ErrorReason]?.httpStatus
    if (documented !== status || reason === 'internal') return `a status of ${status}`
  }
  // Errors of the router address may lack a reason, because it forwards the errors of servers unchanged.
  if (/^\/(api|compat)\//.test(path) && reason === null) return 'the error has no reason'
  const known = DOCUMENTED.get(surface)
  if (known !== undefined && reason !== null && !known.has(reason) && !GENERAL.has(reason)) {
    return `${surface} does not document the reason ${reason}`
  }
  return null
}

/** The reason in the envelope of tRPC, or of OpenAI's API. */
function reasonOf(text: string): string | null {
  return /"reason":"(\w+)"/.exec(text.slice(0, 20_000))?.[1] ?? null
}

function documentedReasons(): Map<string, Set<string>> {
  interface Operation {
    responses: Record<string, { description?: string }>
  }
  const { paths } = JSON.parse(
    readFileSync(new URL('../../../server/http/openapi.json', import.meta.url), 'utf8'),
  ) as { paths: Record<string, Record<string, Operation>> }
  return new Map(
    Object.entries(paths).map(([path, operations]) => {
      const reasons = Object.values(operations)
        .flatMap(({ responses }) => Object.entries(responses))
        .filter(([status]) => Number(status) >= 400)
        .flatMap(([, { description = '' }]) => description.split(', '))
      return [path.replace('/api/trpc/', ''), new Set(reasons)]
    }),
  )
}
