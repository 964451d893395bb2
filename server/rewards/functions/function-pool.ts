import type { FunctionRef, ResolvedReward } from '../../contract/resolved-reward.ts'
import { sandboxProblem } from '../../isolation/isolation.ts'
import type { Logger } from '../../log.ts'
import type { RewardRouter, RouteRequest } from '../../router/router-types.ts'
import { onceRead } from '../../with-timeout.ts'
import type { RewardOutcome, RewardSample } from '../managers/manager.ts'
import {
  type EndedCall,
  type FunctionCall,
  groupOutcomesOf,
  methodOutcomeOf,
  outcomeOf,
} from './function-call.ts'
import type {
  FunctionCaller,
  FunctionCallOptions,
  MethodOutcome,
  WrappedScorer,
} from './function-caller.ts'
import { FunctionLane } from './function-lane.ts'
import { FunctionVersions, type VersionFolders, withRelativePaths } from './function-versions.ts'
import { readQuestion } from './host-messages.ts'
import type { CallEnd, CallWork, FunctionTarget, RouterAnswer, RouterQuestion } from './protocol.ts'
import type { HostSettings } from './start-host.ts'

const TICK_MS = 100
/** Capacity, in samples, while no function runs: one job of the maximum size. */
const IDLE_CAPACITY = 64
/**
 * Capacity in addition to that of running functions: two jobs of the minimum size (16 samples each). If another run
 * waits, the second job is taken from that run.
 */
const SPARE_CAPACITY = 32

export interface FunctionPoolOptions extends VersionFolders {
  settings: HostSettings
  router: RewardRouter
  /** Maximum number of processes, exceeded only if more functions than that run concurrently. */
  maxProcesses: number
  /** `host:port` of the router address; null if unknown. */
  rewardRouterAddress: string | null
  onCapacity?: () => void
  log: Logger
}

/**
 * The child processes that run user code for one worker. Each version of a function has its own lane of processes, so
 * a function that crashes its process affects no other function.
 */
export class FunctionPool implements FunctionCaller {
  readonly #options: FunctionPoolOptions
  readonly #versions: FunctionVersions
  readonly #lanes = new Map<string, FunctionLane>()
  #timer: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: FunctionPoolOptions) {
    this.#options = options
    const { versionsDir, functionsDir, sources } = options
    this.#versions = new FunctionVersions({ versionsDir, functionsDir, sources })
  }

  /**
   * Maximum number of samples in the pool now: thousands for functions that wait for I/O, a short queue for CPU-bound
   * ones.
   */
  get capacity(): number {
    if (this.problem !== null) return 0
    let capacity = 0
    for (const lane of this.#lanes.values()) if (lane.inUse > 0) capacity += lane.capacity
    return capacity === 0 ? IDLE_CAPACITY : SPARE_CAPACITY + capacity
  }

  /** Why this worker cannot run functions at the service's isolation level, or null if it can. */
  get problem(): string | null {
    const { plan } = this.#options.settings
    return plan.level === 'sandbox' ? sandboxProblem(plan) : null
  }

  get pids(): number[] {
    return [...this.#lanes.values()].flatMap((lane) => lane.pids)
  }

  async score(
    ref: FunctionRef,
    sample: RewardSample,
    kwargs: Record<string, unknown>,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome> {
    const work: CallWork = { op: 'score', sample, kwargs: { ...kwargs, ...ref.kwargs } }
    return outcomeOf(await this.#call(await this.#target(ref, 'function'), work, options, null))
  }

  async scoreGroup(
    ref: FunctionRef,
    samples: readonly RewardSample[],
    options: FunctionCallOptions,
  ): Promise<RewardOutcome[]> {
    const work: CallWork = { op: 'group', samples: [...samples], kwargs: ref.kwargs }
    const end = await this.#call(await this.#target(ref, 'function'), work, options, null)
    return groupOutcomesOf(end, samples.length)
  }

  async runSingle(
    ref: FunctionRef,
    sample: RewardSample,
    wrapped: WrappedScorer,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome> {
    const work: CallWork = { op: 'score', sample, kwargs: ref.kwargs }
    const target = await this.#target(ref, 'manager', wrapped.function)
    return outcomeOf(await this.#call(target, work, options, wrapped.score))
  }

  async method(
    ref: FunctionRef,
    names: string[],
    args: unknown[],
    options: FunctionCallOptions,
  ): Promise<MethodOutcome> {
    const target = await this.#target(ref, 'function')
    return methodOutcomeOf(await this.#call(target, { op: 'method', names, args }, options, null))
  }

  async scoreByRule(
    sample: RewardSample,
    reward: ResolvedReward,
    options: FunctionCallOptions,
  ): Promise<RewardOutcome> {
    return outcomeOf(await this.#call(null, { op: 'rule', sample, reward }, options, null))
  }

  /** Ends the processes; their calls end as `cancelled`. */
  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#timer)
    const ended = [...this.#lanes.values()].map((lane) => lane.end())
    this.#lanes.clear()
    await Promise.all(ended)
  }

  async #target(
    ref: FunctionRef,
    role: FunctionTarget['role'],
    wraps?: FunctionRef,
  ): Promise<FunctionTarget | { message: string }> {
    const problem = ref.isolation === 'sandbox' ? sandboxProblem(this.#options.settings.plan) : null
    if (problem !== null) return { message: `${ref.path} cannot run here: ${problem}` }
    try {
      const dir = await this.#versions.unpacked(ref.hash)
      const inner = wraps === undefined ? null : await this.#target(wraps, 'function')
      if (inner !== null && 'message' in inner) return inner
      const { path, name, kwargs, isolation = 'process' } = ref
      const key = JSON.stringify([role, ref.hash, name, kwargs, isolation, inner?.key ?? null])
      const target = { key, dir, path, name, kwargs, isolation, role }
      return inner === null ? target : { ...target, wraps: inner }
    } catch (error) {
      const { message } = error as Error
      return { message: `${ref.path}: ${withRelativePaths(message, this.#options)}` }
    }
  }

  #call(
    target: FunctionTarget | { message: string } | null,
    work: CallWork,
    options: FunctionCallOptions,
    wrapped: FunctionCall['wrapped'],
  ): Promise<EndedCall> {
    const { signal } = options
    const cancelled = { ok: false, reason: 'cancelled', detail: 'the batch ended' } as const
    const unable =
      target !== null && 'message' in target
        ? ({ ok: false, reason: 'function_error', detail: target.message } as const)
        : signal?.aborted || this.#closed
          ? cancelled
          : null
    if (unable !== null) return Promise.resolve({ end: unable, waitedMs: 0 })
    const arrivedAtMs = performance.now()
    return new Promise((resolve) => {
      const lane = this.#lane(target as FunctionTarget | null, options.processes ?? null)
      const call: FunctionCall = {
        work,
        options,
        wrapped,
        arrivedAtMs,
        startedAtMs: null,
        incidents: 0,
        unstarted: 0,
        settled: false,
        settle: (end) => {
          if (call.settled) return
          call.settled = true
          call.routerCalls?.abort()
          if (call.onAbort) signal?.removeEventListener('abort', call.onAbort)
          const waitedMs = (call.startedAtMs ?? performance.now()) - arrivedAtMs
          resolve({ end: this.#shown(end), waitedMs })
        },
        routerCalls: null,
        onAbort: null,
      }
      if (signal) {
        call.onAbort = () => {
          call.settle(cancelled)
          lane.cancel(call)
        }
        signal.addEventListener('abort', call.onAbort, { once: true })
      }
      lane.add(call)
    })
  }

  /** Makes the paths in the failure details of a call relative, because callers read the details. */
  #shown(end: CallEnd['end']): CallEnd['end'] {
    const shown = <T extends { detail: string }>(failed: T): T => ({
      ...failed,
      detail: withRelativePaths(failed.detail, this.#options),
    })
    if (!end.ok) return shown(end)
    if (!('results' in end)) return end
    return { ...end, results: end.results.map((one) => (one.ok ? one : shown(one))) }
  }

  #lane(target: FunctionTarget | null, processes: number | null): FunctionLane {
    const key = `${processes ?? ''} ${target?.key ?? 'rules'}`
    let lane = this.#lanes.get(key)
    if (lane === undefined) {
      const { settings, rewardRouterAddress, log, maxProcesses, onCapacity } = this.#options
      const name = target === null ? 'built-in rules' : target.path
      lane = new FunctionLane(
        { name, target, processes },
        {
          settings,
          rewardRouterAddress,
          mayStart: () => this.#processes() < maxProcesses,
          onCapacity: () => onCapacity?.(),
          answer: (question, call) => this.#answer(question, call),
          log: (level, fields, message) => log[level](fields, message),
        },
      )
      this.#lanes.set(key, lane)
      this.#timer ??= setInterval(() => onceRead(() => this.#tick()), TICK_MS).unref()
    }
    return lane
  }

  #processes(): number {
    let n = 0
    for (const lane of this.#lanes.values()) n += lane.processes
    return n
  }

  #tick(): void {
    for (const [key, lane] of this.#lanes) {
      lane.tick()
      if (lane.isOver) this.#lanes.delete(key)
    }
    if (this.#lanes.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }

  #templateOf(model: string): RouterAnswer {
    const { router } = this.#options
    const template = router.chatTemplate(model)
    if (template !== null) return { ok: true, template }
    return router.models().some((known) => known.model === model)
      ? {
          ok: false,
          reason: 'function_error',
          detail: `no server of "${model}" is registered with a chat template: set chatTemplate on one`,
        }
      : {
          ok: false,
          reason: 'no_server',
          detail: `no server of the model "${model}" is registered`,
        }
  }

  async #answer(raw: RouterQuestion, call: FunctionCall): Promise<RouterAnswer> {
    const { options } = call
    const read = readQuestion(raw)
    if (!read.ok) return { ok: false, reason: 'function_error', detail: read.problem }
    const { question } = read
    if (question.op === 'wrapped') {
      if (call.wrapped === null) {
        return { ok: false, reason: 'function_error', detail: 'the function wraps no scorer' }
      }
      const outcome = await call.wrapped(question.sample)
      return outcome.ok
        ? { ok: true, ...scoreOf(outcome) }
        : { ok: false, reason: outcome.reason, detail: outcome.detail }
    }
    if (question.op === 'template') return this.#templateOf(question.model)
    const { route } = options
    call.routerCalls ??= new AbortController()
    if (call.settled) call.routerCalls.abort()
    const request: RouteRequest = {
      model: question.model,
      timeoutMs: question.options.timeoutMs ?? options.timeoutMs,
      maxAttempts: question.options.maxAttempts ?? route?.maxAttempts ?? 4,
      run: options.run,
      key: options.sampleId,
      urgent: route?.urgent ?? false,
      priority: route?.priority ?? 0,
      ...(route?.group === undefined ? {} : { group: route.group }),
      ...(route?.deadlineMs === undefined
        ? {}
        : { deadlineMs: Math.max(1, route.deadlineMs - (performance.now() - call.arrivedAtMs)) }),
      signal: call.routerCalls.signal,
    }
    const { router } = this.#options
    try {
      if (!router.models().some(({ model }) => model === request.model)) {
        const detail = `no server of the model "${request.model}" is registered`
        return { ok: false, reason: 'no_server', detail }
      }
      if (question.op === 'score') {
        const result = await router.score({ ...request, input: question.input })
        return result.ok
          ? { ok: true, score: result.score, extra: result.extra ?? null }
          : { ok: false, reason: result.reason, detail: result.detail }
      }
      const result = await router.chat({ ...request, chat: question.chat })
      // A function that ignores `truncated` would read the `1` of a cut `10` as the whole number.
      if (result.ok && result.reply.truncated) {
        const end = result.reply.content.slice(-160)
        const detail = `cut off at the token limit (finish_reason length); it ended: …${end}`
        return { ok: false, reason: 'unparseable', detail }
      }
      return result.ok
        ? { ok: true, reply: result.reply }
        : { ok: false, reason: result.reason, detail: result.detail }
    } catch (error) {
      return { ok: false, reason: 'function_error', detail: (error as Error).message }
    }
  }
}

function scoreOf({ score, extra, verdict, rewards }: Extract<RewardOutcome, { ok: true }>) {
  return { score, extra, ...(verdict && { verdict }), ...(rewards && { rewards }) }
}
