import type { FunctionRef } from '../../contract/resolved-reward.ts'
import type {
  RouterChatRequest,
  RouterChatResult,
  RouterResult,
  ScoreRequest,
} from '../../router/router-types.ts'
import type { RewardOutcome, RewardSample, RewardTools } from '../managers/manager.ts'

export interface RecordedScore {
  request: ScoreRequest
  result: RouterResult
}
export interface RecordedChat {
  request: RouterChatRequest
  result: RouterChatResult
}
export interface RecordedFunction {
  role: 'function' | 'manager'
  ref: FunctionRef
  kwargs: Record<string, unknown>
  outcome: RewardOutcome
  tookMs: number
  /** The samples that a manager class scored with its wrapped scorer, and their outcomes. */
  inner: { sample: RewardSample; outcome: RewardOutcome }[]
}

/** Returns the recorded calls that have ended. A cancelled call may still be in progress. */
export function answered(calls: RecordedCalls): RecordedCalls {
  return {
    scores: calls.scores.filter((call) => call !== undefined),
    chats: calls.chats.filter((call) => call !== undefined),
    functions: calls.functions.filter((call) => call !== undefined),
  }
}

/** Calls made while a sample was scored; each list is in the order in which the calls started. */
export interface RecordedCalls {
  scores: RecordedScore[]
  chats: RecordedChat[]
  functions: RecordedFunction[]
}

export function recordTools(tools: RewardTools): { tools: RewardTools; calls: RecordedCalls } {
  const calls: RecordedCalls = { scores: [], chats: [], functions: [] }
  const { router, functions } = tools
  // A position is reserved when a call starts, because answers arrive in any order.
  const place = <T>(list: T[]): ((entry: T) => void) => {
    const at = list.push(undefined as T) - 1
    return (entry) => {
      list[at] = entry
    }
  }
  const recorded = {
    router: withOwn(router, {
      async score(request) {
        const put = place(calls.scores)
        const result = await router.score(request)
        put({ request, result })
        return result
      },
      async chat(request) {
        const put = place(calls.chats)
        const result = await router.chat(request)
        put({ request, result })
        return result
      },
    }),
    functions: withOwn(functions, {
      async score(ref, sample, kwargs, options) {
        const put = place(calls.functions)
        const startedAt = performance.now()
        const outcome = await functions.score(ref, sample, kwargs, options)
        const tookMs = performance.now() - startedAt
        put({ role: 'function', ref, kwargs, outcome, tookMs, inner: [] })
        return outcome
      },
      async scoreGroup(ref, samples, options) {
        const put = place(calls.functions)
        const startedAt = performance.now()
        const outcomes = await functions.scoreGroup(ref, samples, options)
        const tookMs = performance.now() - startedAt
        const [outcome] = outcomes as [RewardOutcome]
        put({ role: 'function', ref, kwargs: {}, outcome, tookMs, inner: [] })
        return outcomes
      },
      async runSingle(ref, sample, wrapped, options) {
        const put = place(calls.functions)
        const inner: RecordedFunction['inner'] = []
        const startedAt = performance.now()
        const recording = {
          ...wrapped,
          async score(innerSample: RewardSample) {
            const outcome = await wrapped.score(innerSample)
            inner.push({ sample: innerSample, outcome })
            return outcome
          },
        }
        const outcome = await functions.runSingle(ref, sample, recording, options)
        const tookMs = performance.now() - startedAt
        put({ role: 'manager', ref, kwargs: {}, outcome, tookMs, inner })
        return outcome
      },
    }),
  }
  return { tools: { ...tools, ...recorded }, calls }
}

/**
 * Replaces some methods of an object. The others run on the object itself, because a proxy has no access to private
 * fields.
 */
function withOwn<T extends object>(object: T, own: Partial<T>): T {
  return new Proxy(object, {
    get(target, name) {
      if (Object.hasOwn(own, name)) return own[name as keyof T]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
